//! Rule files of the mock network.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| wifu_testkit::fuzz::rules(text));
