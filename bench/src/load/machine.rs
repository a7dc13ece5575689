//! The machine that a figure was measured on.

use serde::Serialize;

/// What a reader needs to judge a figure; absent where the system does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Name of the processor.
    pub processor: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Whether this program was built with debug assertions: such figures are not for comparison.
    pub debug_build: bool,
}

impl Machine {
    /// Asks the system (Linux: /proc).
    pub fn this() -> Self {
        let read = |path| std::fs::read_to_string(path).ok();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: read("/proc/meminfo").as_deref().and_then(memory_bytes),
            processor: read("/proc/cpuinfo").as_deref().and_then(processor),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            debug_build: cfg!(debug_assertions),
        }
    }
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn processor(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        assert_eq!(memory_bytes("MemTotal:       24576 kB\nMemFree: 1 kB\n"), Some(24576 << 10));
        assert_eq!(memory_bytes("MemTotal: many kB"), None);
        assert_eq!(memory_bytes(""), None);
        let cpu = "processor\t: 0\nmodel name\t: Fast CPU @ 3GHz\n";
        assert_eq!(processor(cpu).as_deref(), Some("Fast CPU @ 3GHz"));
        assert!(Machine::this().cores >= 1);
    }
}
