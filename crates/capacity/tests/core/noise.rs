//! What nobody meant as a list of labels is settled by one write all the same.

use std::path::Path;

#[path = "../../../../fuzz/targets/label_list.rs"]
mod label_list;

#[test]
fn any_list_is_settled_by_one_write() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/label_list");
    sim::noise::drive(&corpus, 20_000, label_list::label_list);
}
