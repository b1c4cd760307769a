//! 802.11 radios as a state machine that is told the time: timing of 802.11a/b/g, propagation,
//! error models, cumulative interference, carrier sense, DCF, driver queue and its delay. The
//! simulator drives it in virtual time, the emulator against the wall clock.
#![forbid(unsafe_code)]

mod channel;
pub mod counters;
mod dcf;
mod driver;
pub mod error;
pub mod etx;
pub mod fading;
mod fate;
mod minstrel;
pub mod phy;
pub mod plan;
pub mod power;
pub mod propagation;
mod queue;
mod radio;
pub mod sets;
mod station;
pub mod topology;
pub mod trace;
pub mod words;

pub use counters::{Counters, LinkCounters};
pub use driver::Times;
pub use power::Power;
pub use radio::{Event, Frame, OnAir, Radio};
