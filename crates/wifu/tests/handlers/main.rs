//! `wifu core` and `wifu delay` live: handlers on what the kernel's own programs send over a
//! router. Needs root, iptables, curl and python3; makes, and removes, namespaces of its own.

#[path = "../../../wifu-linux/tests/common/mod.rs"]
mod common;
mod delay;
mod hooks;
mod tun;
mod world;
