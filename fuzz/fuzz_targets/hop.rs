//! Hop's header and its runs of missing numbers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::hop(bytes));
