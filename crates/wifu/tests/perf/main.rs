//! `wifu perf` and `wifu exec` as their users meet them.

mod alone;
mod common;
mod iperf3;
