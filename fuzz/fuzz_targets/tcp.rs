//! The TCP header and its options.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::tcp(bytes));
