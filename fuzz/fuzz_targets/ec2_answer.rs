#![no_main]

#[path = "../targets/ec2_answer.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::ec2_answer(data));
