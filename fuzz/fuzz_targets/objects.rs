//! Objects of every kind and lists of them: read or refused, never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flagship_api::fuzz_harness::objects(data));
