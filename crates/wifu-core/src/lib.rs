//! WiFu Core: handlers that see every packet at every hop, sans-IO. The same handlers run in the
//! simulator and, behind NFQUEUE, on Linux.
//!
//! A [`Handler`] returns a [`Verdict`] on each packet; a [`Chain`] asks several in turn and keeps
//! count. The substrate keeps held packets by their ticket, fires the timers, and repairs what a
//! handler changed by [`ip::repair`].
#![forbid(unsafe_code)]

mod chain;
mod config;
mod handler;
mod handlers;
mod hook;
pub mod ip;
pub mod shim;

pub use chain::{Chain, Counters, Full, Released};
pub use config::{Config, ConfigError, HandlerConfig};
pub use handler::{Descriptor, Handler, HopCx, Lines, Site, TIMERS, TxStatus};
pub use handlers::{HANDLERS, find};
pub use hook::{Hook, Hooks, Octets, Packet, Verdict};
pub use wifu_wire::LinkFacts;
