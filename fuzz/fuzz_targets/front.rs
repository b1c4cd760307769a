//! The protocol between applications and the daemon.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::front(bytes));
