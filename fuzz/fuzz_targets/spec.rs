//! Specifications and quantities with units.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| wifu_testkit::fuzz::spec(text));
