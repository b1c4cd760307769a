//! Bytes and units: time, rates and sequence numbers, the decoded [`Head`], and the codecs that
//! map it to wire formats. Knows nothing of protocols, engines or operating systems.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod dot11;
pub mod front;
pub mod head;
pub mod ipv4;
pub mod names;
pub mod pcapng;
pub mod radiotap;
pub mod shim;
pub mod tcp;
pub mod units;

pub use checksum::Pseudo;
pub use head::{Flags, FrameFacts, Head, Place, RANGES, SynOptions, WORDS, Wire, Word};
pub use ipv4::IpInfo;
pub use units::{Rate, Rng, Seq, Span, Time};
