//! Work that failed: it is tried again, later and later; and what cannot succeed is parked, so that it
//! neither takes the place of other work nor fills the log of the node. In memory alone: another leader, or
//! another version of the program, may do better.

use crate::raft::ProposeError;
use holdfast_core::ErrorCode;
use holdfast_core::codec::CodecError;
use holdfast_core::keys::work::Work;
use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};

/// How long work waits that failed: first, and at most.
const WAIT_FIRST: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_secs(300);
/// How often it is tried before it is parked.
const TRIES: u32 = 8;
/// How long parked work waits.
const WAIT_PARKED: Duration = Duration::from_hours(1);
/// Most pieces of work of a group whose failure is remembered; others are simply tried again when the looks
/// come round to them.
const FAILED_MAX: usize = 4_096;

/// Why work is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// What the job makes breaks a limit.
    Refused,
    /// A row cannot be read.
    Unreadable,
    /// It failed too often, for whatever reason.
    Failing,
}

impl Reason {
    /// The name in metrics and messages.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreadable => "unreadable",
            Self::Failing => "failing",
        }
    }

    /// Why trying again would end the same way, if it would.
    fn lasting(error: &(dyn Error + Send + Sync + 'static)) -> Option<Self> {
        if error.is::<CodecError>() {
            return Some(Self::Unreadable);
        }
        if let Some(ProposeError::TooLarge { .. }) = error.downcast_ref() {
            return Some(Self::Refused);
        }
        match error.downcast_ref::<holdfast_core::Error>()?.code {
            ErrorCode::InvalidArgument | ErrorCode::TooLarge => Some(Self::Refused),
            _ => None,
        }
    }
}

/// One piece of work that failed.
#[derive(Debug)]
struct Failed {
    tries: u32,
    until: Instant,
    parked: Option<Reason>,
}

/// The failures of one group.
#[derive(Debug, Default)]
pub(super) struct Failures {
    of: HashMap<Work, Failed>,
}

impl Failures {
    /// Whether this is not to be tried yet.
    pub(super) fn holds_back(&self, work: &Work, now: Instant) -> bool {
        self.of.get(work).is_some_and(|failed| failed.until > now)
    }

    pub(super) fn succeeded(&mut self, work: &Work) {
        self.of.remove(work);
    }

    /// Notes a failure, and says when it is tried again.
    pub(super) fn failed(&mut self, work: Work, error: &(dyn Error + Send + Sync + 'static), now: Instant) {
        let tries = self.of.get(&work).map_or(0, |failed| failed.tries).saturating_add(1);
        let parked = Reason::lasting(error).or((tries >= TRIES).then_some(Reason::Failing));
        let wait = match parked {
            Some(_) => WAIT_PARKED,
            None => WAIT_FIRST.saturating_mul(1 << (tries - 1).min(16)).min(WAIT_MAX),
        };
        let (space, id, again_s) = (&work.space, &work.id, wait.as_secs());
        match parked {
            Some(reason) => {
                let reason = reason.as_str();
                tracing::error!(%space, id, reason, again_s, %error, "a job is parked");
            }
            None => tracing::warn!(%space, id, again_s, %error, "a job failed"),
        }
        if self.of.len() < FAILED_MAX || self.of.contains_key(&work) {
            self.of.insert(work, Failed { tries, until: now + wait, parked });
        }
    }

    /// Forgets what was not tried for long after its time: it is gone, or was done by somebody else.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.of.retain(|_, failed| failed.until + WAIT_MAX > now);
    }

    /// How much work is parked for a reason.
    pub(super) fn parked(&self, reason: &str) -> usize {
        let of_reason = |failed: &&Failed| failed.parked.is_some_and(|parked| parked.as_str() == reason);
        self.of.values().filter(of_reason).count()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Failure;
    use super::*;
    use holdfast_core::codec::Stored;
    use holdfast_core::keys::work::WorkKind;
    use holdfast_core::space::SpaceKey;

    fn work(id: &str) -> Work {
        let space = SpaceKey::user("租户", "ann").unwrap();
        Work { at_us: 1, space, kind: WorkKind::Session, id: id.into() }
    }

    fn busy() -> Failure {
        holdfast_core::Error::new(ErrorCode::Unavailable, "no leader").into()
    }

    #[test]
    fn what_fails_is_tried_later_and_later_and_then_parked() {
        let (mut failures, mut now, mut waits) = (Failures::default(), Instant::now(), Vec::new());
        while failures.parked("failing") == 0 {
            assert!(!failures.holds_back(&work("会话"), now));
            failures.failed(work("会话"), busy().as_ref(), now);
            let begin = now;
            while failures.holds_back(&work("会话"), now) {
                now += Duration::from_secs(1);
            }
            waits.push((now - begin).as_secs());
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 3_600]);
        failures.succeeded(&work("会话"));
        assert_eq!(failures.parked("failing"), 0, "one that succeeds begins anew");
    }

    #[test]
    fn what_cannot_succeed_is_parked_at_once_and_for_a_reason() {
        let now = Instant::now();
        let too_large = ProposeError::TooLarge { bytes: 2, bytes_max: 1 };
        let damaged = holdfast_core::command::Command::decode(b"\xff").unwrap_err();
        let cases: [(Failure, &str); 3] = [
            (holdfast_core::Error::invalid("derived_from", "too long").into(), "refused"),
            (too_large.into(), "refused"),
            (damaged.into(), "unreadable"),
        ];
        for (error, reason) in cases {
            let mut failures = Failures::default();
            failures.failed(work("s"), error.as_ref(), now);
            assert_eq!(failures.parked(reason), 1, "{error}");
            assert!(failures.holds_back(&work("s"), now + WAIT_MAX));
            failures.forget_old(now + WAIT_PARKED + WAIT_MAX);
            assert_eq!(failures.parked(reason), 0, "what is gone is not shown for ever");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        for n in 0..FAILED_MAX + 10 {
            failures.failed(work(&n.to_string()), busy().as_ref(), now);
        }
        assert_eq!(failures.of.len(), FAILED_MAX);
        failures.failed(work("0"), busy().as_ref(), now);
        assert_eq!(failures.of[&work("0")].tries, 2, "known ones go on counting");
    }
}
