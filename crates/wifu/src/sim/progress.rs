//! How far a long run is, on a terminal only.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Short runs show nothing.
const PATIENCE: Duration = Duration::from_millis(700);
const PAUSE: Duration = Duration::from_millis(150);

/// A line on standard error that is written over again.
pub struct Progress {
    begun: Instant,
    last: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// Shows something only where somebody looks.
    pub fn new() -> Progress {
        Progress {
            begun: Instant::now(),
            last: None,
            shown: std::io::stderr().is_terminal(),
        }
    }

    /// `share`: of the whole, if that is known; from 0 to 1.
    pub fn update(&mut self, virtual_s: f64, share: Option<f64>) {
        let now = Instant::now();
        let early = now - self.begun < PATIENCE || self.last.is_some_and(|l| now - l < PAUSE);
        if !self.shown || early {
            return;
        }
        self.last = Some(now);
        let speed = virtual_s / (now - self.begun).as_secs_f64();
        let line = line(virtual_s, speed, share);
        // Nobody is told that the terminal went away.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    /// Take the line away.
    pub fn clear(&mut self) {
        if self.last.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(virtual_s: f64, speed: f64, share: Option<f64>) -> String {
    let share = share.map_or(String::new(), |s| {
        format!(", {:.0} %", (s * 100.0).min(100.0))
    });
    format!("{virtual_s:.1} s simulated{share}, {speed:.0} times as fast as life")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        assert_eq!(
            line(12.34, 480.2, Some(0.41)),
            "12.3 s simulated, 41 %, 480 times as fast as life"
        );
        assert_eq!(
            line(1.0, 2.0, None),
            "1.0 s simulated, 2 times as fast as life"
        );
    }
}
