//! Whether what was acknowledged is there.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};

use super::holdfast::Cluster;
use super::texts::{Name, Texts};

/// Writes that are read back at most: all of a short run, and of a long one an even sample and the
/// last ones, which the failures of leaders threatened.
const READ_BACK_MAX: usize = 20_000;
/// Reads at once.
const AT_ONCE: usize = 16;
/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Reads back a part of the acknowledged writes by their ids. Returns how many, and how many of
/// them are not there as they were written.
pub(super) async fn read_back(
    cluster: &Cluster,
    texts: &Texts,
    acknowledged: &[(String, Name)],
) -> Result<(u64, u64)> {
    let http = reqwest::Client::builder().no_proxy().timeout(ANSWER_MAX).build()?;
    let chosen = chosen(acknowledged.len(), READ_BACK_MAX);
    let count = chosen.len() as u64;
    let lost: Vec<bool> = futures::stream::iter(chosen)
        .map(|at| {
            let (http, (user, name)) = (&http, &acknowledged[at]);
            async move {
                let id = name.id();
                let stored = cluster.stored(http, user, &id).await;
                let stored = stored.with_context(|| format!("cannot read {id} of {user}"))?;
                let is_lost = stored.as_deref() != Some(texts.content(*name).as_str());
                if is_lost {
                    eprintln!("lost: {id} of {user}");
                }
                anyhow::Ok(is_lost)
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    Ok((count, lost.into_iter().filter(|lost| *lost).count() as u64))
}

/// Places to look at: all, or the last half of `max` and an even sample of those before.
fn chosen(count: usize, max: usize) -> Vec<usize> {
    if count <= max {
        return (0..count).collect();
    }
    let last = max / 2;
    let (before, sample) = (count - last, max - last);
    (0..sample).map(|step| step * before / sample).chain(before..count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_few_and_a_sample_of_many() {
        assert_eq!(chosen(5, 10), [0, 1, 2, 3, 4]);
        let some = chosen(1_000, 100);
        assert_eq!(some.len(), 100);
        assert!(some.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(some[0] == 0 && some[50..].iter().copied().eq(950..1_000));
    }
}
