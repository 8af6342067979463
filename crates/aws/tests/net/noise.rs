//! What nobody meant as an answer, or as credentials, is read or refused; nothing more happens.

use std::path::Path;

#[path = "../../../../fuzz/targets/ec2_answer.rs"]
mod ec2_answer;
#[path = "../../../../fuzz/targets/shared_config.rs"]
mod shared_config;

fn drive(name: &str, target: impl Fn(&[u8])) {
    sim::noise::drive(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name), 20_000, target);
}

#[test]
fn any_answer_is_read_or_refused() {
    drive("ec2_answer", ec2_answer::ec2_answer);
}

#[test]
fn any_credentials_are_read_or_refused_and_lend_nothing() {
    drive("shared_config", shared_config::shared_config);
}
