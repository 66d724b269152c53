//! Durations: what is printed reads back.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flagship_api::fuzz_harness::durations(data));
