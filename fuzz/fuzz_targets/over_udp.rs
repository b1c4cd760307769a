//! Datagrams of the carrier `udp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::over_udp(bytes));
