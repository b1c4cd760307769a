//! WiFu live on Linux: carriers, the daemon and its event loop.
//!
//! The only crate, next to the socket library, that calls the operating system. `unsafe` lives in
//! [`sys`], `batch`, `datagram`, `six`, [`schedule`], [`ring`], `bpf`, [`terminal`] and [`bsd`],
//! each a thin layer over a few system calls, and in [`load`], which calls the dynamic linker;
//! everything else is safe Rust above them.

pub mod answers;
mod batch;
mod bpf;
pub mod bsd;
pub mod capture;
pub mod carrier;
mod changes;
pub mod clean;
pub mod core;
pub mod daemon;
mod datagram;
pub mod delay;
mod devices;
pub mod doctor;
pub mod doubles;
pub mod emu;
pub mod faults;
pub mod front;
pub mod guard;
mod hop;
pub mod ingress;
mod kind;
mod links;
pub mod load;
mod names;
pub mod neighbours;
mod net;
mod netlink;
pub mod netns;
pub mod poller;
mod ports;
pub mod privileges;
pub mod raw;
pub mod ring;
pub mod schedule;
mod settings;
mod six;
pub mod steps;
pub mod sys;
pub mod terminal;
pub mod tun;
pub mod udp;
mod unreachable;
pub mod wifi;
