//! Test equipment for WiFu: pairs in virtual time, conformance, allocation counting, style checks.
#![deny(unsafe_code)]

pub mod alloc;
pub mod conform;
pub mod dictionary;
pub mod fuzz;
pub mod lean;
pub mod packetdrill;
pub mod pair;
pub mod seg;
pub mod stage;
pub mod wild;
pub mod wire;
