//! An image that recalls and the apply thread share.

use super::Image;
use holdfast_core::event::Event;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An image as recalls and the apply thread share it.
pub type SharedImage = Arc<LiveImage>;

/// Changes that wait for their image at the most, outside of the count of its bytes: with terms and vectors a few
/// megabytes.
const LATE_MAX: usize = 512;
/// Who waits to change an image keeps others from beginning to look at it. So each attempt is short, and there is
/// a pause between two.
const ATTEMPT: Duration = Duration::from_millis(5);

/// An image behind its lock, and the changes that came while somebody looked at it.
///
/// A recall holds the read side for its scan: well under a millisecond for a usual space, but as long as its
/// deadline allows where vectors are read from a file. The apply thread serves all spaces of its shard and must
/// not wait for that. So it takes the lock if it is free, and leaves the changes here if not: whoever asks for the
/// image next ([`Spaces::get`](crate::index::Spaces::get)) puts them in first.
///
/// Locks: the image before the late changes, where both are waited for.
#[derive(Debug)]
pub struct LiveImage {
    image: RwLock<Image>,
    /// Later than what the image has, in the order in which they came; whole batches only.
    late: Mutex<Vec<Event>>,
}

/// The image was not free before the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::index) struct TimedOut;

impl LiveImage {
    pub(in crate::index) fn new(image: Image) -> Self {
        Self { image: RwLock::new(image), late: Mutex::default() }
    }

    /// Looks at the image. It has every batch that was delivered before it was got.
    pub fn read(&self) -> RwLockReadGuard<'_, Image> {
        self.image.read()
    }

    /// As [`LiveImage::read`]; `None` if somebody changes it until then.
    pub(crate) fn read_until(&self, deadline: Instant) -> Option<RwLockReadGuard<'_, Image>> {
        self.image.try_read_until(deadline)
    }

    /// Looks at it to change what is no change of the space: its indices.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Image> {
        loop {
            if let Some(writing) = self.image.try_write_for(ATTEMPT) {
                return writing;
            }
            std::thread::sleep(ATTEMPT);
        }
    }

    /// Whether changes wait because somebody looks at it right now.
    pub(in crate::index) fn is_held(&self) -> bool {
        !self.late.lock().is_empty() && self.image.is_locked()
    }

    /// Takes all events of a batch, in the order of the log: by one thread at a time. `None` if they wait, since
    /// somebody looks at the image; else the image, for what depends on its change. Waits only if too many
    /// changes wait already.
    pub(in crate::index) fn deliver(&self, events: &[&Event]) -> Option<RwLockWriteGuard<'_, Image>> {
        let mut late = self.late.lock();
        let mut writing = if late.len() + events.len() > LATE_MAX {
            drop(late);
            let mut writing = self.write();
            self.drain(&mut writing);
            writing
        } else {
            let Some(mut writing) = self.image.try_write() else {
                late.extend(events.iter().map(|event| (*event).clone()));
                return None;
            };
            apply(&mut writing, &std::mem::take(&mut *late));
            writing
        };
        apply(&mut writing, events.iter().copied());
        Some(writing)
    }

    /// Puts in what is late. `None` if nothing is.
    pub(in crate::index) fn catch_up(
        &self,
        deadline: Instant,
    ) -> Result<Option<RwLockWriteGuard<'_, Image>>, TimedOut> {
        // Somebody who is about to put them in holds the write side already: the next look waits for that.
        if self.late.lock().is_empty() {
            return Ok(None);
        }
        let mut writing = self.image.try_write_until(deadline).ok_or(TimedOut)?;
        self.drain(&mut writing);
        Ok(Some(writing))
    }

    fn drain(&self, writing: &mut Image) {
        let late = std::mem::take(&mut *self.late.lock());
        apply(writing, &late);
    }
}

/// An image that has a part of a batch is of no use: should this panic, it is given up.
fn apply<'e>(image: &mut Image, events: impl IntoIterator<Item = &'e Event>) {
    struct Unfinished(Arc<AtomicBool>, bool);
    impl Drop for Unfinished {
        fn drop(&mut self) {
            if self.1 {
                self.0.store(true, Ordering::Relaxed);
            }
        }
    }
    let mut unfinished = Unfinished(Arc::clone(image.vectors.damage()), true);
    events.into_iter().for_each(|event| image.apply(event));
    unfinished.1 = false;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::index::tests::row;
    use holdfast_core::space::SpaceKey;
    use std::time::Duration;

    fn put(seq: u64) -> Event {
        let space = SpaceKey::user("acme", "小明").unwrap();
        Event::Put { space, seq, row: Box::new(row(&format!("m{seq}"), "green tea, 绿茶")) }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[test]
    fn a_batch_does_not_wait_for_who_looks_and_is_there_for_the_next() {
        let live = LiveImage::new(Image::new());
        assert!(live.deliver(&[&put(1)]).is_some());
        assert!(live.catch_up(soon()).unwrap().is_none());
        let looking = live.read();
        assert!(live.deliver(&[&put(2), &put(3)]).is_none());
        assert_eq!(looking.len(), 1);
        assert!(live.is_held());
        assert_eq!(live.catch_up(soon()).err(), Some(TimedOut));
        // Others may look at it meanwhile.
        assert_eq!(live.read_until(soon()).unwrap().len(), 1);
        drop(looking);
        assert!(!live.is_held());
        assert_eq!(live.catch_up(soon()).unwrap().unwrap().len(), 3);
        assert!(live.catch_up(soon()).unwrap().is_none());
        // In the order in which they came, also if nobody asked in between.
        let looking = live.read();
        let remove = Event::Remove { space: SpaceKey::user("acme", "小明").unwrap(), seq: 4 };
        assert!(live.deliver(&[&put(4)]).is_none());
        drop(looking);
        assert_eq!(live.deliver(&[&remove, &put(5)]).unwrap().len(), 4);
    }

    #[test]
    fn what_waits_is_bounded() {
        let live = LiveImage::new(Image::new());
        std::thread::scope(|scope| {
            let looking = live.read();
            for seq in 1..=LATE_MAX as u64 {
                assert!(live.deliver(&[&put(seq)]).is_none());
            }
            let waiting = scope.spawn(|| live.deliver(&[&put(LATE_MAX as u64 + 1)]).unwrap().len());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(looking);
            assert_eq!(waiting.join().unwrap(), LATE_MAX + 1);
        });
        assert!(live.late.lock().is_empty());
    }
}
