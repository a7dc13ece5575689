use std::time::Duration;

/// How a node watches over its replicas.
#[derive(Debug, Clone, Copy)]
pub struct IntegritySettings {
    /// How often replicas are compared.
    pub compare_every: Duration,
    /// How fast rows are read to be compared with the hash that was kept over them, bytes a second.
    /// Faster if once in [`IntegritySettings::scrub_every`] could not be kept otherwise.
    pub scrub_bytes_per_second: u64,
    /// How fast while an operator waits for it.
    pub verify_bytes_per_second: u64,
    /// How often the rows of each replica are read, at the least.
    pub scrub_every: Duration,
    /// How fast the images of active spaces are compared with the stored rows, rows a second.
    pub index_rows_per_second: u64,
    /// How often a replica may be made anew within a day.
    pub rebuilds_per_day_max: usize,
}

impl Default for IntegritySettings {
    /// A comparison a minute, 8 MiB of rows a second, each replica daily, two rebuilds a day.
    fn default() -> Self {
        Self {
            compare_every: Duration::from_mins(1),
            scrub_bytes_per_second: 8 << 20,
            verify_bytes_per_second: 64 << 20,
            scrub_every: Duration::from_hours(24),
            index_rows_per_second: 20_000,
            rebuilds_per_day_max: 2,
        }
    }
}
