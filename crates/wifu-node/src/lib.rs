//! What runs on one host, without knowing in which world: endpoints, handlers at the hooks, and
//! what protocols bring along. Two substrates drive it, virtual time and Linux.
#![forbid(unsafe_code)]

mod registry;

pub use registry::{Catalog, Protocol, Registry, tell_apart};
