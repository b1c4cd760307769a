//! Composition files.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| wifu_testkit::fuzz::composition(text));
