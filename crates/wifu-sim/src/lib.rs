//! Virtual time: the mock network (Behaviour 2.8), and meshes of 802.11 nodes and wires ([`mesh`]).
//!
//! The mock network:
//!
//! Two endpoints, an access link, a router with a short queue, a bottleneck, and whatever goes
//! wrong on the way: losses by data index, by chance or by rule, reordering, duplication,
//! corruption. No clock is read and no packet leaves the process; the same description gives the
//! same octets.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # fn example(blueprint: Arc<wifu_engine::Blueprint>) -> Result<(), Box<dyn std::error::Error>> {
//! use wifu_sim::{Flow, LinkSpec, MockBuilder, Side, Span};
//! let mut mock = MockBuilder::new()
//!     .access(LinkSpec::new("8Mb/s".parse()?, "0.1ms".parse()?))
//!     .bottleneck(LinkSpec::new("0.8Mb/s".parse()?, "100ms".parse()?).queue(8))
//!     .flow(Flow::bulk(&blueprint, 1_000_000).drop_data(&[14, 26, 28]))
//!     .build();
//! mock.run(Span::SECOND * 600);
//! mock.verify(0).expect("every octet arrived, both ends closed");
//! println!("{} retransmissions", mock.tally(0, Side::A).retransmissions);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod advice;
pub mod air_pcap;
pub mod app;
mod builder;
pub mod causes;
mod fault;
mod link;
pub mod mesh;
mod mock;
pub mod outcome;
mod packet;
pub mod queue;
pub mod record;
pub mod routing;
pub mod rules;
pub mod scenario;
pub mod stage;
pub mod stalls;
mod tables;
pub mod traffic;
pub mod why;
pub mod world;

pub use app::{App, Close, Outcome, pattern};
pub use builder::{Flow, MockBuilder, Open};
pub use fault::{Impair, Lost, Tamper};
pub use link::{Link, LinkSpec};
pub use mock::{Mock, Stop, Tally};
pub use packet::{Packet, Side, wrap};
pub use record::{Row, csv};
pub use rules::{Fate, RuleError, Rules};
pub use wifu_wire::{Rate, Rng, Span, Time};
