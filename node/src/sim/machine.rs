//! The two things that a program asks its machine for and that differ from run to run: random bytes
//! and the time. On the thread of a simulation both come from the simulation.
//!
//! `HashMap`s, tokio's choice among ready branches, generators of random numbers and `Instant::now`
//! all end in two functions of the C library. This file defines functions of the same names, which the
//! linker prefers; other threads, and threads without a simulation, get what the kernel gives.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    /// The state of the generator.
    static CHANCE: Cell<u64> = const { Cell::new(0) };
    /// Simulated time where no host is running.
    static ELAPSED_NS: Cell<u64> = const { Cell::new(0) };
    /// What `Instant::now` said at the simulated time 0.
    static BEGIN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The monotonic clock at the simulated time 0: far from 0, so that subtractions have room.
const MONOTONIC_BEGIN_NS: u64 = 1_000_000 * 1_000_000_000;
/// The wall clock at the simulated time 0, 2027-01-15. The nodes have clocks of their own.
const WALL_BEGIN_NS: u64 = 1_800_000_000 * 1_000_000_000;

/// While it lives, this thread gets its randomness and its time from a simulation.
pub(super) struct Machine(());

impl Machine {
    /// Takes over the present thread. The hash keys of its `HashMap`s are drawn once, so it must not
    /// have made any before.
    pub(super) fn take_over(seed: u64) -> Self {
        CHANCE.set(seed);
        ELAPSED_NS.set(0);
        BEGIN.set(None);
        ON.set(true);
        BEGIN.set(Some(Instant::now()));
        Machine(())
    }

    /// Tells what time it is between the turns of the hosts.
    pub(super) fn set_elapsed(&self, elapsed: Duration) {
        ELAPSED_NS.set(nanos(elapsed));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        ON.set(false);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Simulated time since the begin: that of the host whose turn it is.
fn elapsed_ns() -> u64 {
    let (Some(begin), true) = (BEGIN.get(), tokio::runtime::Handle::try_current().is_ok()) else {
        return ELAPSED_NS.get();
    };
    // The clock of a simulated host stands still: tokio answers without asking for the time.
    nanos(tokio::time::Instant::now().into_std().saturating_duration_since(begin))
}

/// SplitMix64 (Steele, Lea, Flood, 2014).
fn next_random() -> u64 {
    let state = CHANCE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    CHANCE.set(state);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn fill(bytes: &mut [u8]) -> bool {
    if ON.get() {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&next_random().to_le_bytes()[..chunk.len()]);
        }
        return true;
    }
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(bytes)).is_ok()
}

/// As `getrandom(2)`.
///
/// # Safety
/// `buffer` must point to `len` bytes that may be written.
#[allow(unsafe_code, reason = "it takes the place of a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, len: usize, _flags: u32) -> isize {
    if buffer.is_null() {
        return -1;
    }
    // SAFETY: the caller vouches for the buffer.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, len) };
    if fill(bytes) { len.cast_signed() } else { -1 }
}

/// `struct timespec` of 64-bit Linux.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// As `clock_gettime(2)`.
///
/// # Safety
/// `time` must point to a `timespec` that may be written.
#[allow(unsafe_code, reason = "it takes the place of a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    use rustix::time::{ClockId, clock_gettime};
    // Numbers as in `linux/time.h`.
    let (id, begin_ns) = match clock {
        0 => (ClockId::Realtime, WALL_BEGIN_NS),
        1 => (ClockId::Monotonic, MONOTONIC_BEGIN_NS),
        2 => (ClockId::ProcessCPUTime, MONOTONIC_BEGIN_NS),
        3 => (ClockId::ThreadCPUTime, MONOTONIC_BEGIN_NS),
        4 => (ClockId::MonotonicRaw, MONOTONIC_BEGIN_NS),
        5 => (ClockId::RealtimeCoarse, WALL_BEGIN_NS),
        6 => (ClockId::MonotonicCoarse, MONOTONIC_BEGIN_NS),
        7 => (ClockId::Boottime, MONOTONIC_BEGIN_NS),
        _ => return -1,
    };
    let now = if ON.get() {
        let ns = begin_ns.saturating_add(elapsed_ns());
        let (seconds, nanoseconds) = (ns / 1_000_000_000, ns % 1_000_000_000);
        Timespec { seconds: seconds.cast_signed(), nanoseconds: nanoseconds.cast_signed() }
    } else {
        // rustix asks the kernel itself, so this is no call of the function it stands in.
        let now = clock_gettime(id);
        Timespec { seconds: now.tv_sec, nanoseconds: now.tv_nsec }
    };
    // SAFETY: the caller vouches for the place.
    unsafe { time.write(now) };
    0
}
