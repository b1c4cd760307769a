//! Timers that fire at ticks, as those of a kernel do (Linux, kernel/time/timer.c, calc_index and
//! calc_wheel_index).

use crate::params::ParamSpec;
use wifu_wire::{Span, Time};

/// The length of a tick.
pub const TICK: ParamSpec = ParamSpec::span(
    "tick",
    Span(0),
    Span(0),
    Span(10_000_000),
    "Timers of retransmissions, probes, reordering and delayed acknowledgements are set in ticks, \
     rounded up, and fire at the tick behind: one, or eight of them beyond 63, as the timer wheel \
     of Linux; those of probes and reordering are 2 ms longer (TCP_TIMEOUT_MIN_US). A kernel with \
     HZ=250 has 4 ms; 0: timers fire when they are due.",
);

/// What Linux adds to the timers of probes and reordering.
pub const LEAST: Span = Span(2_000_000);

/// Ticks that the first level of the wheel holds, and by how many bits the next is coarser.
const LEVEL: (u64, u32) = (63, 3);

/// When a timer fires that is set now for so long.
pub fn on_tick(now: Time, wait: Span, tick: Span) -> Time {
    if tick == Span::ZERO {
        return now + wait;
    }
    let ticks = wait.0.div_ceil(tick.0).max(1);
    let expires = now.0 / tick.0 + ticks;
    let (mut shift, mut holds) = (0, LEVEL.0);
    while ticks >= holds && shift < 24 {
        (shift, holds) = (shift + LEVEL.1, holds << LEVEL.1);
    }
    // One more, lest it fire early.
    Time((((expires >> shift) + 1) << shift).saturating_mul(tick.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_at_the_tick_behind_and_long_ones_at_every_eighth() {
        let ms = |n: u64| Span::MILLI * n;
        let at = |now: u64, wait: u64| on_tick(Time::ZERO + ms(now), ms(wait), ms(4)).0 / 1_000_000;
        assert_eq!(on_tick(Time(7), Span(5), Span::ZERO), Time(12));
        // Set for one tick it takes between one and two.
        assert_eq!((at(0, 4), at(3, 4), at(4, 4)), (8, 8, 12));
        assert_eq!((at(0, 1), at(0, 5)), (8, 12), "rounded up");
        assert_eq!((at(0, 204), at(1, 248)), (208, 252));
        // 63 ticks and more: multiples of 32 ms, 504 and more: of 256 ms.
        assert_eq!((at(0, 252), at(4, 252), at(12, 400)), (256, 288, 416));
        assert_eq!(at(0, 2016), 2048);
    }
}
