//! `wifu daemon` and `wifu exec` live: with the kernel's TCP, under unmodified programs, and when
//! things die. Everything here needs root and makes, and removes, namespaces of its own.

mod applications;
#[path = "../../../wifu-linux/tests/common/mod.rs"]
mod common;
mod in_udp;
mod interop;
mod privileges;
mod quick_start;
mod relay;
mod robustness;
mod six;
mod udp;
mod unreachable;
mod world;
