#![no_main]

#[path = "../targets/hook_body.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::hook_body(data));
