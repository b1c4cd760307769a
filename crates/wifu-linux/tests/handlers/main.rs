//! Handlers behind NFQUEUE and TUN devices: what becomes of packets when handlers fail, when nobody
//! keeps up, and when they are changed. Needs root; namespaces of its own.

mod changing;
#[path = "../common/mod.rs"]
mod common;
mod delay;
mod failing;
mod tun;
mod world;
