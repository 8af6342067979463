//! Packs definitions: for a release when it is built, and for the test that reads what a release holds.

use std::io::Write;
use std::path::Path;

/// All files of a folder by name, one YAML document after the other, packed.
pub fn pack(folder: &Path) -> std::io::Result<Vec<u8>> {
    let mut files = std::fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    for file in files {
        packer.write_all(b"---\n")?;
        packer.write_all(&std::fs::read(file)?)?;
    }
    packer.finish()
}
