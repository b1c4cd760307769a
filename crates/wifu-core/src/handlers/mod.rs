//! The handlers that come with WiFu, one file each.

mod collector;
mod delay;
mod drop;
mod link_notice;
mod logger;
mod null;
mod snoop;
mod tp_alpha;

use crate::handler::Descriptor;

/// All of them, in the order of the documentation.
pub static HANDLERS: &[&Descriptor] = &[
    &null::NULL,
    &logger::LOGGER,
    &drop::DROP,
    &delay::DELAY,
    &collector::DELAY_COLLECTOR,
    &link_notice::LINK_NOTICE,
    &tp_alpha::TPA_SHIM,
    &snoop::SNOOP,
];

#[cfg(test)]
mod tests;
