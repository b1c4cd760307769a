//! The composed header.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::shim(bytes));
