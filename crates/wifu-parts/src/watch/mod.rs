//! What watches the path.

pub mod ttl_hops;
