//! 802.11 radios as a state machine that is told the time: timing of 802.11a/b/g, propagation,
//! error models, cumulative interference, carrier sense, DCF, driver queue and its delay. The
//! simulator drives it in virtual time, the emulator against the wall clock.
#![forbid(unsafe_code)]

mod busy;
mod contention;
pub mod counters;
mod dcf;
pub mod discipline;
mod driver;
pub mod error;
pub mod etx;
mod event;
pub mod fading;
mod fate;
mod geometry;
mod link;
mod mac;
mod medium;
mod minstrel;
pub mod phy;
pub mod plan;
pub mod power;
pub mod propagation;
mod queue;
mod radio;
mod run;
pub mod sets;
mod signal;
mod source;
mod station;
pub mod topology;
pub mod trace;
mod transceiver;
pub mod words;

pub use counters::{Counters, LinkCounters};
pub use driver::Times;
pub use event::{Event, Frame, OnAir};
pub use power::Power;
pub use radio::Radio;
