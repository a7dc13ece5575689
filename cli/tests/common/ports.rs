//! Loopback addresses that no other test is given.
//!
//! A test that restarts a process in the same place must know the port beforehand. Asking the
//! kernel for a free one and letting go of it does not do: until the process binds it, the kernel
//! may give it to another test. So ports come from below the range that the kernel gives out, and
//! each is held by a lock on a file of its number until the test process ends.

use std::fs::{File, TryLockError};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Mutex;

/// Below Linux's default of `net.ipv4.ip_local_port_range`, which begins at 32,768.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// The locks of this process; the kernel lets go of them when it ends, however it ends.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A loopback `address:port` that is free, and reserved for this process.
pub fn free_address() -> String {
    let folder = std::env::temp_dir().join("holdfast-test-ports");
    std::fs::create_dir_all(&folder).unwrap();
    let mut held = HELD.lock().unwrap();
    // Processes begin in different places, so that they seldom try the same port.
    let start = u16::try_from(std::process::id().wrapping_mul(61) % u32::from(COUNT)).unwrap();
    for step in 0..COUNT {
        let port = FIRST + (start + step) % COUNT;
        let Some(lock) = lock(folder.join(port.to_string())) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            held.push(lock);
            return format!("127.0.0.1:{port}");
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

fn lock(path: PathBuf) -> Option<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path).unwrap();
    match file.try_lock() {
        Ok(()) => Some(file),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => panic!("cannot lock a port: {error}"),
    }
}
