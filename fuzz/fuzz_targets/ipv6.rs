//! The IPv6 header and what may follow it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::ipv6(bytes));
