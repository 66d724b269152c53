//! Numbers and percentages: a share never exceeds its total.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flagship_api::fuzz_harness::int_or_string(data));
