//! 802.11 radios as a state machine that is told the time: timing of 802.11a/b/g, propagation,
//! error models, cumulative interference, carrier sense, DCF, driver queue and its delay. The
//! simulator drives it in virtual time, the emulator against the wall clock.
#![forbid(unsafe_code)]

pub mod error;
pub mod etx;
pub mod fading;
pub mod phy;
pub mod plan;
pub mod power;

pub use power::Power;
