//! What a service answers, checked.

use crate::client::validate_vector;
use serde::Deserialize;

/// The part of an answer that is read.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

/// The vectors of an answer in the order of the texts, at length 1.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn vectors(body: &[u8], texts: usize, dims: usize) -> Result<Vec<Vec<f32>>, String> {
    // A number beyond single precision is read as infinite, and refused below; NaN is no JSON.
    let answer: Answer = serde_json::from_slice(body).map_err(|error| {
        format!("its answer is no list of embeddings ({error}); is the url that of the API?")
    })?;
    if answer.data.len() != texts {
        return Err(format!("it answered {} vectors for {texts} texts", answer.data.len()));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for Item { index, embedding } in answer.data {
        if embedding.len() != dims {
            return Err(format!(
                "its vectors have {} dimensions, {dims} are configured; correct dims, or choose the model that has them",
                embedding.len()
            ));
        }
        validate_vector(&embedding, Some(dims)).map_err(|error| format!("vector {index}: {error}"))?;
        match vectors.get_mut(index) {
            Some(place @ None) => *place = Some(unit(embedding)),
            Some(Some(_)) => return Err(format!("it answered the index {index} twice")),
            None => return Err(format!("it answered the index {index} for {texts} texts")),
        }
    }
    // Each index came once, and there are as many as texts.
    Ok(vectors.into_iter().flatten().collect())
}

/// The vector at length 1; it was checked that it has a length.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    for value in &mut vector {
        // At most 1.
        #[allow(clippy::cast_possible_truncation)]
        let scaled = (f64::from(*value) / norm) as f32;
        *value = scaled;
    }
    vector
}

/// What a service says about a request that it refused, in a line; bounded.
pub(super) fn message(body: &[u8]) -> String {
    const CHARS_MAX: usize = 300;
    let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let told = json.as_ref().and_then(|json| {
        let error = json.get("error").unwrap_or(json);
        error.get("message").or(Some(error)).and_then(serde_json::Value::as_str).map(str::to_owned)
    });
    let text = told.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(CHARS_MAX).filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn read(answer: &serde_json::Value) -> Result<Vec<Vec<f32>>, String> {
        vectors(answer.to_string().as_bytes(), 2, 2)
    }

    fn item(index: i64, embedding: &[f64]) -> serde_json::Value {
        json!({"object": "embedding", "index": index, "embedding": embedding})
    }

    #[test]
    fn vectors_come_in_order_and_at_length_one() {
        let answer =
            json!({"object": "list", "model": "m", "data": [item(1, &[0.0, 2.0]), item(0, &[3.0, 4.0])]});
        assert_eq!(read(&answer).unwrap(), [vec![0.6, 0.8], vec![0.0, 1.0]]);
    }

    #[test]
    fn what_is_no_answer_is_refused_with_its_reason() {
        let good = item(0, &[1.0, 0.0]);
        for (data, words) in [
            (json!([good]), "1 vectors for 2 texts"),
            (json!([good, good]), "index 0 twice"),
            (json!([good, item(2, &[1.0, 0.0])]), "the index 2"),
            (json!([good, item(-1, &[1.0, 0.0])]), "no list of embeddings"),
            (json!([good, item(1, &[1.0])]), "have 1 dimensions, 2 are configured"),
            (json!([good, item(1, &[0.0, 0.0])]), "vector 1"),
            (json!([good, item(1, &[1e300, 0.0])]), ""),
            (json!([good, {"index": 1, "embedding": [null, 1]}]), "no list of embeddings"),
            (json!("data"), "no list of embeddings"),
        ] {
            let error = read(&json!({"data": data})).unwrap_err();
            assert!(error.contains(words), "{data}: {error}");
        }
        assert!(vectors(b"<html>", 1, 2).unwrap_err().contains("is the url that of the API?"));
        assert!(vectors(br#"{"data": [{"index": 0, "embedding": [NaN, 1]}]}"#, 1, 2).is_err());
    }

    #[test]
    fn a_message_is_one_short_line() {
        assert_eq!(message(br#"{"error": {"message": "no such\n model"}}"#), "no such model");
        assert_eq!(message(br#"{"error": "busy"}"#), "busy");
        assert_eq!(message("出错了".as_bytes()), "出错了");
        assert_eq!(message(&vec![b'x'; 10_000]).len(), 300);
        assert_eq!(message(&[0xff, 0x00]).chars().count(), 1);
    }
}
