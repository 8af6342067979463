//! What nobody meant as a request is answered or refused, the same way every time.

use std::path::Path;

#[path = "../../../../fuzz/targets/hook_body.rs"]
mod hook_body;

#[test]
fn any_body_is_answered_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/hook_body");
    sim::noise::drive(&corpus, 5_000, hook_body::hook_body);
}
