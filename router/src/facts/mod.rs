//! `…/facts`: statements of memories, and what may be decided about them.

pub(crate) mod add;
pub(crate) mod decide;
pub(crate) mod list;

/// The id of a fact: that of its memory, with a number behind it for all but the first.
pub(crate) fn fact_id(memory_id: &str, ordinal: u32) -> String {
    if ordinal == 0 { memory_id.to_owned() } else { format!("{memory_id}~{ordinal}") }
}

/// The memory and the number that an id names.
fn parse_fact_id(id: &str) -> (&str, u8) {
    let numbered = id.rsplit_once('~').and_then(|(memory_id, ordinal)| {
        let ordinal = ordinal
            .parse::<u8>()
            .ok()
            .filter(|ordinal| (1..holdfast_core::limits::STATEMENTS_MAX).contains(&usize::from(*ordinal)))?;
        (!memory_id.is_empty()).then_some((memory_id, ordinal))
    });
    numbered.unwrap_or((id, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_a_memory_and_a_number() {
        for (id, parts) in
            [("m", ("m", 0)), ("m~1", ("m", 1)), ("m~9", ("m~9", 0)), ("~1", ("~1", 0)), ("a~b", ("a~b", 0))]
        {
            assert_eq!(parse_fact_id(id), parts);
        }
        assert_eq!(fact_id("m", 0), "m");
        assert_eq!(parse_fact_id(&fact_id("记忆", 3)), ("记忆", 3));
    }
}
