//! WiFu Transport's engine: connections composed of parts. It owns the order in which parts are
//! asked, the timers (data, not callbacks), the randomness and the clock (passed in). It names no
//! component and knows no operating system.
#![forbid(unsafe_code)]

pub mod admission;
pub mod bench;
pub mod blueprint;
pub mod board;
mod checks;
pub mod component;
pub mod composition;
pub mod conn;
pub mod descriptor;
pub mod endpoint;
pub mod face;
pub mod fact;
pub mod hooks;
pub mod kit;
pub mod math;
pub mod params;
pub mod permit;
pub mod quantity;
mod resolve;
pub mod signal;
pub mod store;
mod switch;
mod timers;
mod words;

pub use admission::{Admission, Tuple};
pub use bench::Bench;
pub use blueprint::Blueprint;
pub use board::{Board, Facts, RouteFacts, State, Unserved};
pub use component::{Admit, Aside, Component, Cx, Out, Payload, Segment};
pub use composition::{Composition, ConfigError, Library};
pub use conn::{Conn, Transmit};
pub use descriptor::{
    Access, Descriptor, FieldUse, NoteSpec, ParamSpec, Params, Registry, Role, Value, WordSpec,
};
pub use endpoint::{
    ConnId, ConnInfo, ConnectError, Datagram, Deadlines, Endpoint, EndpointConfig, Event, ListenId,
};
pub use face::{Face, WordUse};
pub use fact::{Fact, Preference};
pub use permit::{Kind, Limit, Permit, Reason, Want};
pub use signal::{Arrival, Cause, Fault, Signal, Status};
pub use store::Ticket;
