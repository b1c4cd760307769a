//! What several parts share, since parts may not import parts. No registry knows these.

pub mod accept;
mod adaptive;
mod alive;
mod backoff;
pub mod blocks;
mod delivery;
mod duplicates;
pub mod epoch;
mod growth;
mod holes;
pub mod hop;
mod hystart;
mod interval;
mod marks;
mod owed;
mod pace;
mod peak;
mod pipe;
mod prr;
mod rack;
mod ranges;
mod reader;
mod sender;
mod spurious;
mod ticks;
mod timed;
mod trips;
mod window;

pub use adaptive::{ADAPTIVE_PARAMS, Adaptive, Trip, UNKNOWN};
pub use alive::{KEEP, KEEP_PARAMS, KeepAlive};
pub use backoff::Backoff;
pub use delivery::{Delivery, LostPacket, Sample};
pub use duplicates::{Duplicates, EMULATE};
pub use epoch::EPOCH;
pub use growth::{
    ABC, ABC_LIMIT, CWV, EXIT, Growth, IDLE_RESTART, IW, REDUCES, RTO_HOLD, SSTHRESH,
    initial_window,
};
pub use holes::{EPISODES, Holes, LTX, Passed, RANGES, REARM};
pub use hystart::{HYSTART, HyStart, Pace as StartPace};
pub use interval::{DS_FIRST, Interval, KAPPA, PHI, TARGET};
pub use marks::{ECN, ECN_ECHO, Marks};
pub use owed::{AckRule, Acking, Held, Owed};
pub use pace::Pace;
pub use peak::Peak;
pub use pipe::PipeAck;
pub use prr::{PRR, PRR_UNIT, Prr};
pub use rack::{RACK, REORDER, Rack};
pub use ranges::{Ranges, reported};
pub use reader::Reader;
pub use sender::{Advance, Expiry, RTO, SENDER_PARAMS, SENDING, Sender, USER};
pub use spurious::{Answer, FRTO, Known, Spurious, UNDO};
pub use ticks::{TICK, on_tick};
pub use timed::{Probe, TAIL, Tail, Timed};
pub use trips::{Ended, TRIPS, Trips};
#[doc(hidden)]
pub use wifu_wire::Time;
pub use window::{WindowControl, Windowed};

/// An exponentially weighted average; `weight` is that of the old value (Behaviour 0).
#[derive(Clone, Copy, Debug, Default)]
pub struct Ewma {
    value: Option<f64>,
    weight: f64,
}

impl Ewma {
    /// An empty average.
    pub fn new(weight: f64) -> Ewma {
        Ewma {
            value: None,
            weight,
        }
    }

    /// The first sample initialises; never start from zero.
    pub fn add(&mut self, sample: f64) -> f64 {
        let next = match self.value {
            Some(v) => self.weight * v + (1.0 - self.weight) * sample,
            None => sample,
        };
        self.value = Some(next);
        next
    }

    /// The average, once there was a sample.
    pub fn value(&self) -> Option<f64> {
        self.value
    }

    /// Forget everything.
    pub fn clear(&mut self) {
        self.value = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_vectors_of_the_delay_averages() {
        let run = |w: f64, samples: &[f64]| {
            let mut e = Ewma::new(w);
            samples.iter().map(|s| e.add(*s)).last()
        };
        assert_eq!(run(0.75, &[700.0, 900.0, 1500.0, 700.0]), Some(878.125));
        assert_eq!(run(0.85, &[2000.0, 3000.0, 1000.0]), Some(1977.5));
    }
}
