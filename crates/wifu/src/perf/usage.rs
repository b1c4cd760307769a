//! The host while a test runs: its clock, and who used its processors.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wifu_linux::bsd;

use super::measured::Results;

/// The host's monotonic clock, seconds: the same for all processes of the host.
pub fn monotonic() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// What that clock showed at `epoch`, seconds.
pub fn monotonic_at(epoch: Instant) -> f64 {
    monotonic() - epoch.elapsed().as_secs_f64()
}

/// Processor use so far, of this process, of the daemon that serves it, and of the machine.
pub struct Usage {
    at: Instant,
    process: (Duration, Duration),
    daemon: Option<(u32, Duration)>,
    machine: Option<Duration>,
}

impl Usage {
    /// What it is now.
    pub fn now() -> Self {
        Self::with(daemon())
    }

    fn with(daemon: Option<u32>) -> Self {
        Self {
            at: Instant::now(),
            process: bsd::cpu_times(),
            daemon: daemon.and_then(|pid| Some((pid, process_busy(pid)?))),
            machine: machine_busy(),
        }
    }

    /// What was used since then, in percent of one processor. A daemon that began anew meanwhile is
    /// another process, whose work is not known.
    pub fn since(&self) -> Results {
        let now = Self::with(self.daemon.map(|(pid, _)| pid));
        let seconds = (now.at - self.at).as_secs_f64();
        let percent = |from: Duration, to: Duration| {
            if seconds > 0.0 {
                100.0 * to.saturating_sub(from).as_secs_f64() / seconds
            } else {
                0.0
            }
        };
        let machine = self.machine.zip(now.machine);
        let daemon = self.daemon.zip(now.daemon);
        Results {
            cpu_percent: (
                percent(self.process.0, now.process.0),
                percent(self.process.1, now.process.1),
            ),
            daemon_percent: daemon.map(|((_, from), (_, to))| percent(from, to)),
            machine_percent: machine.map_or(0.0, |(from, to)| percent(from, to)),
            ..Results::default()
        }
    }
}

/// The daemon that does this process's protocol, if one does and can be seen from here.
fn daemon() -> Option<u32> {
    super::protocol::ambient()?;
    crate::front::process(Path::new(&std::env::var_os("WIFU_SOCKET")?))
}

/// Time that a process has used so far, in user mode and in the kernel, by /proc/PID/stat.
fn process_busy(pid: u32) -> Option<Duration> {
    busy_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The same of that file's text. The name in its second column may have blanks and parentheses.
fn busy_of(stat: &str) -> Option<Duration> {
    let mut columns = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || columns.next()?.parse::<u64>().ok();
    // USER_HZ, as below.
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_read_whatever_its_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 8 7 6 150 50 3 2 20 0 4 0 100 1 2";
        assert_eq!(busy_of(stat), Some(Duration::from_secs(2)));
        assert_eq!(busy_of("7 (a) S 1"), None);
        assert!(process_busy(std::process::id()).is_some());
    }

    #[test]
    fn a_daemon_that_is_gone_has_no_share() {
        let mut usage = Usage::with(Some(std::process::id()));
        assert!(usage.since().daemon_percent.is_some());
        usage.daemon = Some((u32::MAX, Duration::ZERO));
        assert_eq!(usage.since().daemon_percent, None);
        assert_eq!(Usage::with(None).since().daemon_percent, None);
    }
}
