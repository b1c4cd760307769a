//! Bytes and units: time, rates and sequence numbers, the decoded [`Head`], and the codecs that
//! map it to wire formats. Knows nothing of protocols, engines or operating systems.
#![forbid(unsafe_code)]

pub mod atp;
pub mod carried;
pub mod checksum;
pub mod codec;
pub mod delays;
pub mod dot11;
pub mod facts;
pub mod format;
pub mod front;
pub mod head;
pub mod hop;
pub mod hxh;
pub mod ip;
mod ip_info;
pub mod ipv4;
pub mod ipv6;
pub mod names;
pub mod neighbour;
pub mod notes;
pub mod numbers;
pub mod over_udp;
pub mod pcapng;
pub mod radiotap;
pub mod shim;
pub mod tcp;
pub mod units;

pub use carried::HeadField;
pub use checksum::Pseudo;
pub use codec::{Codec, WireSpec};
pub use delays::Delays;
pub use facts::{LinkFacts, Staleness};
pub use format::{Class, Format};
pub use head::{Flags, FrameFacts, Head, Place, RANGES, SynOptions, WORDS, Wire, Word};
pub use ip::{AnyIpInfo, Ecn, IpInfo};
pub use neighbour::{LinkTo, Neighbour};
pub use notes::{NOTES, Note, Notes};
pub use units::{Moment, Rate, Rng, Seq, Span, Time};

/// The formats of this crate that have a declaration of their own.
pub static WIRES: &[&WireSpec] = &[&tcp::WIRE, &atp::WIRE, &hxh::WIRE, &hop::WIRE];
