//! Answers of EC2 and STS.

/// The body of an answer, good or bad.
pub fn ec2_answer(data: &[u8]) {
    let found = aws::net::fuzz::read_everything(data);
    assert!(found <= data.len().saturating_mul(2), "{found} things in {} bytes", data.len());
}
