//! Operations and hostile segments for an endpoint.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::engine(bytes));
