//! WiFu Core: handlers that see every packet at every hop, sans-IO. The same handlers run in the
//! simulator and, behind NFQUEUE, on Linux.
//!
//! A [`Handler`] returns a [`Verdict`] on each packet; it may hold packets, keep copies and send. A
//! [`Chain`] asks several in turn and keeps count. The substrate keeps held packets and copies by
//! their tickets, fires the timers, lets in what handlers send, and repairs what they changed by
//! [`ip::repair`].
#![forbid(unsafe_code)]

mod chain;
mod config;
mod error;
mod handler;
mod handlers;
mod hook;
pub mod ip;
mod kinds;
mod packet;
mod select;
pub mod shim;
mod short;
mod whose;

pub use chain::{Chain, Counters, Full, Released, Seat};
pub use config::{Config, HandlerConfig};
pub use error::ConfigError;
pub use handler::{
    Descriptor, Handler, HopCx, HopWordSpec, Lines, NO_PACKET, NextHop, Sending, Setup, Site,
    TIMERS, TxStatus, Verbs, What,
};
pub use handlers::HANDLERS;
pub use hook::{Hook, Hooks, Verdict};
pub use kinds::{Ground, Kinds, Own};
pub use packet::{Octets, Packet};
pub use select::{HopWord, Select};
pub use whose::{Header, Headers, Whose};
pub use wifu_wire::{LinkFacts, LinkTo};
