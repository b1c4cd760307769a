//! What packetdrill tests, made of an endpoint: sockets and packets in virtual time ([`Stack`]),
//! and a player of scripts of its own ([`Script`], [`play`]).
//!
//! packetdrill plays a script of system calls and packets against a TCP. It can do so against a
//! shared object that offers sockets, packets and time: the crate `packetdrill/` at the root of the
//! repository makes one of [`Stack`]. The player here understands the part of the language that the
//! scripts in `crates/wifu-testkit/scripts` need, so that they are played wherever the tests run;
//! the real program plays the same files.

mod calls;
mod names;
mod options;
mod packet;
mod parse;
mod player;
mod replay;
mod script;
mod socket;
mod stack;
mod syscall;

pub use calls::{Answer, Begun, Call, CallId, Errno, Value};
pub use packet::{Opt, Packet};
pub use player::play;
pub use replay::{Round, Sent, agreement, replay};
pub use script::{Event, Expr, Problem, Script, What, When};
pub use stack::{Left, Setup, Stack};
