//! Label selectors: checked, printed and matched without a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flagship_api::fuzz_harness::selectors(data));
