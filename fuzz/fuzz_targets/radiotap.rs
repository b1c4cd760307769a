//! Radiotap and the 802.11 data frame behind it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_testkit::fuzz::radiotap(bytes));
