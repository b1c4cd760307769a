//! The host while a test runs: its clock, and who used its processors.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wifu_linux::bsd;

/// The host's monotonic clock, seconds: the same for all processes of the host.
pub fn monotonic() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// What that clock showed at `epoch`, seconds.
pub fn monotonic_at(epoch: Instant) -> f64 {
    monotonic() - epoch.elapsed().as_secs_f64()
}

/// Processor use so far, of this process and of the machine.
pub struct Usage {
    at: Instant,
    process: (Duration, Duration),
    machine: Option<Duration>,
}

impl Usage {
    /// What it is now.
    pub fn now() -> Self {
        Self {
            at: Instant::now(),
            process: bsd::cpu_times(),
            machine: machine_busy(),
        }
    }

    /// Percent of one processor since then: user, system, whole machine.
    pub fn percent_since(&self) -> (f64, f64, f64) {
        let now = Self::now();
        let seconds = (now.at - self.at).as_secs_f64();
        let percent = |from: Duration, to: Duration| {
            if seconds > 0.0 {
                100.0 * to.saturating_sub(from).as_secs_f64() / seconds
            } else {
                0.0
            }
        };
        let machine = self.machine.zip(now.machine);
        (
            percent(self.process.0, now.process.0),
            percent(self.process.1, now.process.1),
            machine.map_or(0.0, |(from, to)| percent(from, to)),
        )
    }
}

/// Time that all processors together were not idle since boot, by /proc/stat.
fn machine_busy() -> Option<Duration> {
    // USER_HZ is 100 on every Linux architecture; columns 4 and 5 are idle and iowait, 9 and 10
    // repeat guests' time that user and nice contain.
    let text = fs::read_to_string("/proc/stat").ok()?;
    let columns = text.lines().next()?.split_whitespace().skip(1).enumerate();
    let busy = columns.filter(|(at, _)| !matches!(at, 3 | 4 | 8 | 9));
    let ticks: u64 = busy
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum();
    Some(Duration::from_millis(ticks * 10))
}
