//! The mechanisms of the model, each shown to act on the machine as a whole: a small scene, run
//! with the mechanism and without it, and what differs on the air.

/// The counting allocator of the test equipment, which itself depends on this crate.
#[allow(dead_code)]
#[path = "../../../wifu-testkit/src/alloc.rs"]
mod alloc;
mod bench;
#[path = "../common/mod.rs"]
mod common;

mod access;
mod account;
mod airtime;
mod driver;
mod interference;
mod links;
mod medium;

#[global_allocator]
static COUNTING: alloc::Counting = alloc::Counting;
