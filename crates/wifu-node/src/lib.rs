//! What runs on one host, without knowing in which world: endpoints, handlers at the hooks, lanes,
//! and what protocols bring along. A substrate drives it: virtual time, or a daemon on Linux.
#![forbid(unsafe_code)]

mod custody;
mod down;
pub mod export;
pub mod facts;
mod hand;
mod heeds;
mod lanes;
mod naming;
mod node;
mod passage;
mod read;
mod registry;
mod split;
mod substrate;
mod turn;
mod walk;
mod ways;
mod work;

pub use custody::{FlowKey, LaneCounters, LanesConfig, Origin, Seen, Took};
pub use down::Down;
pub use facts::Teller;
pub use heeds::{Heeded, Heeds};
pub use lanes::Lanes;
pub use naming::{mistaken, name_handlers};
pub use node::Node;
pub use passage::Mask;
pub use registry::{Catalog, Protocol, Registry, tell_apart};
pub use split::{Half, HalfCounters, Split, SplitConfig, SplitCounters};
pub use substrate::Substrate;
pub use turn::Scheduler;
pub use ways::{Bound, Frame, Lost, Reader, Relayed, Toward, Ways};
pub use work::{HostCost, HostCounters};
