//! What the kernel answers about routes, neighbours, addresses, interfaces and Wi-Fi.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wifu_linux::answers::understand(bytes));
