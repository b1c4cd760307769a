//! `wifu perf` and `wifu exec` as their users meet them.

mod alone;
mod applications;
mod common;
mod iperf3;
