use std::path::{Path, PathBuf};

use clusters::plan::Documents;
use clusters::render::{Live, Rendered, Settings};
use serde_json::Value;

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
}

/// The objects of an input and the bundle that all share.
pub fn documents(name: &str) -> Documents {
    let mut documents = Documents::default();
    for file in ["bundles", name] {
        documents.read(&read(&folder("inputs").join(format!("{file}.yaml")))).unwrap();
    }
    documents
}

pub fn rendered(documents: &Documents, live: &Live) -> Rendered {
    clusters::plan::rendered(&documents.clusters[0], documents, &Settings::default(), live).unwrap()
}

pub fn yaml(objects: &[&Value]) -> String {
    objects.iter().map(|object| format!("---\n{}", serde_saphyr::to_string(object).unwrap())).collect()
}

/// Every input but the bundle.
pub fn inputs() -> Vec<String> {
    let files = std::fs::read_dir(folder("inputs")).unwrap().map(|file| file.unwrap().path());
    let mut names: Vec<String> = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.retain(|name| name != "bundles");
    names.sort();
    assert!(names.len() >= 7, "{names:?}");
    names
}
