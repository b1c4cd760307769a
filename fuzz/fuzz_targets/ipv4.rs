//! The IPv4 header.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::ipv4(bytes));
