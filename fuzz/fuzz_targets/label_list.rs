#![no_main]

#[path = "../targets/label_list.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::label_list(data));
