//! Proportional rate reduction (RFC 9937): how much may leave for each acknowledgement of a
//! recovery, so that the flight shrinks evenly to what the window fell to, without a pause and
//! without a burst.

use crate::params::ParamSpec;

/// The switch.
pub const PRR: ParamSpec = ParamSpec::flag(
    "prr",
    false,
    "In a recovery what leaves is proportional to what was delivered (RFC 9937), instead of \
     nothing until the flight is as small as the window; where the peer reports ranges, or \
     with `emulate`.",
);

/// What it counts in.
pub const PRR_UNIT: ParamSpec = ParamSpec::text(
    "prr_unit",
    "octets",
    &["octets", "segments"],
    "What `prr` counts in, and of what it keeps the proportion: octets, of what was in flight (RFC \
     9937), or whole segments, rounded up, of the window (Linux, tcp_cwnd_reduction, \
     tcp_init_cwnd_reduction).",
);

/// One recovery episode. Counts octets, or whole segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prr {
    /// RecoverFS: what was in flight when the episode began, and could still be delivered; with
    /// whole segments the window.
    flight: u32,
    whole: bool,
    /// prr_delivered.
    delivered: u32,
    /// prr_out.
    out: u32,
    /// What is left of sndcnt.
    quota: u32,
    /// What was delivered before the window fell: it does once the judge has spoken.
    early: Option<u32>,
}

impl Prr {
    /// An episode with `flight` octets neither acknowledged nor reported before it. It begins with
    /// an acknowledgement that told of `delivered` octets, and with its first segment that leaves,
    /// at which [`Prr::begin`] is told the window.
    pub fn new(flight: u32, delivered: u32) -> Prr {
        Prr {
            flight: flight.max(1),
            whole: false,
            delivered: 0,
            out: 0,
            quota: 0,
            early: Some(delivered),
        }
    }

    /// The same of a window, in whole segments.
    pub fn of_window(window: u32, delivered: u32) -> Prr {
        Prr {
            whole: true,
            ..Prr::new(window, delivered)
        }
    }

    /// The window has fallen: see [`Prr::acked`].
    pub fn begin(&mut self, state: (u32, u32, u32)) {
        if let Some(delivered) = self.early.take() {
            self.acked(delivered, false, state);
        }
    }

    //= rfc9937#section-6.2
    /// An acknowledgement told of `delivered` octets. `window` is what the congestion control fell
    /// to, `pipe` what is in flight; `safe`: it moved the edge and told of no further loss.
    pub fn acked(&mut self, delivered: u32, safe: bool, (window, pipe, mss): (u32, u32, u32)) {
        if let Some(early) = &mut self.early {
            *early = early.saturating_add(delivered);
            return;
        }
        if delivered == 0 {
            return;
        }
        self.delivered = self.delivered.saturating_add(delivered);
        let unit = if self.whole { mss.max(1) } else { 1 };
        self.quota = if pipe > window {
            let (delivered, window) = (self.delivered.div_ceil(unit), window / unit);
            let share = u64::from(delivered) * u64::from(window);
            let share = share.div_ceil(u64::from((self.flight / unit).max(1)));
            let share = u32::try_from(share).unwrap_or(u32::MAX);
            share.saturating_mul(unit).saturating_sub(self.out)
        } else {
            let owed = self.delivered.saturating_sub(self.out).max(delivered);
            let grown = if safe { owed.saturating_add(mss) } else { owed };
            grown.min(window - pipe)
        };
    }

    /// So much left.
    pub fn sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
        self.quota = self.quota.saturating_sub(bytes);
    }

    /// So much is lost that no acknowledgement told of: its place is free (Linux, where the window
    /// stays).
    pub fn freed(&mut self, bytes: u32) {
        self.quota = self.quota.saturating_add(bytes);
    }

    /// It waits for the window to fall.
    pub fn pending(&self) -> bool {
        self.early.is_some()
    }

    /// What may leave now.
    pub fn quota(&self) -> u32 {
        self.quota
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 1000 that leave for each acknowledgement of one segment, as long as they are
    /// whole; the first goes again whatever is allowed.
    fn run(flight: u32, window: u32, lost: u32, acks: u32, safe: bool) -> Vec<u32> {
        let mut prr = Prr::new(flight * 1000, 0);
        let mut pipe = (flight - lost) * 1000;
        let mut left = Vec::new();
        prr.begin((window * 1000, pipe, 1000));
        for i in 0..acks {
            pipe -= 1000;
            prr.acked(1000, safe, (window * 1000, pipe, 1000));
            let mut n = 0;
            while prr.quota() >= 1000 || i == 0 && n == 0 {
                prr.sent(1000);
                pipe += 1000;
                n += 1;
            }
            left.push(n);
        }
        left
    }

    #[test]
    fn one_leaves_for_two_delivered_when_the_window_is_halved() {
        // The first goes half a segment early; at the end the flight is as small as the window.
        let left = run(20, 10, 1, 19, false);
        assert_eq!(
            left,
            [1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1]
        );
        // Seven of ten for CUBIC.
        let left = run(20, 14, 1, 19, false);
        assert_eq!(left.iter().sum::<u32>(), 14);
        assert!(left.iter().all(|n| *n <= 1), "{left:?}");
    }

    #[test]
    fn a_flight_that_many_losses_made_small_grows_no_faster_than_in_slow_start() {
        // Of 20 only 4 are on their way; the window would take ten at once.
        assert_eq!(
            run(20, 10, 16, 4, false),
            [1, 1, 1, 1],
            "conservation of packets"
        );
        assert_eq!(
            run(20, 10, 16, 4, true),
            [2, 2, 2, 2],
            "one more for each that is safe"
        );
    }

    /// Linux: two of three, five and more of ten, and nothing where the window has no room.
    #[test]
    fn in_whole_segments_the_first_delivered_lets_one_leave() {
        let sent = |mut prr: Prr, acks: u32| {
            prr.begin((5_000, 10_000, 1000));
            let mut left = Vec::new();
            for i in 1..=acks {
                prr.acked(1000, false, (5_000, 10_000 - i * 300, 1000));
                let n = prr.quota() / 1000;
                (0..n).for_each(|_| prr.sent(1000));
                left.push(n);
            }
            left
        };
        assert_eq!(sent(Prr::new(10_000, 0), 4), [0, 1, 0, 1]);
        assert_eq!(sent(Prr::of_window(10_000, 0), 4), [1, 0, 1, 0]);
        // What was in flight is more than the window: the proportion is the window's.
        assert_eq!(sent(Prr::new(20_000, 0), 4), [0, 0, 0, 1]);
    }

    #[test]
    fn nothing_delivered_allows_nothing() {
        let mut prr = Prr::new(20_000, 0);
        prr.begin((10_000, 2_000, 1000));
        prr.acked(0, true, (10_000, 2_000, 1000));
        assert_eq!(prr.quota(), 0);
        prr.acked(2_000, false, (10_000, 9_500, 1000));
        assert_eq!(prr.quota(), 500, "never beyond the window");
    }

    #[test]
    fn what_was_delivered_before_the_window_fell_counts_once_it_has() {
        let mut prr = Prr::new(20_000, 3_000);
        prr.acked(1_000, false, (20_000, 16_000, 1000));
        assert_eq!(prr.quota(), 0);
        prr.begin((10_000, 16_000, 1000));
        prr.begin((10_000, 16_000, 1000));
        assert_eq!(prr.quota(), 2_000, "half of four thousand, once");
    }
}
