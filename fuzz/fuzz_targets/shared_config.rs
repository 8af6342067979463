#![no_main]

#[path = "../targets/shared_config.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::shared_config(data));
