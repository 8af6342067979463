//! Releases are small: functions that are equal byte by byte become one, relocations are packed, and definitions are held as the
//! chart has them, packed too, instead of the code that makes them.

#[path = "src/definitions/pack.rs"]
mod pack;

use std::path::{Path, PathBuf};

/// The chart's definitions.
const DEFINITIONS: &str = "../../chart/files/crds";

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/definitions/pack.rs");
    println!("cargo:rustc-check-cfg=cfg(packed_definitions)");
    let is = |name: &str, value: &str| std::env::var_os(name).is_some_and(|found| found == value);
    if !is("PROFILE", "release") {
        return Ok(());
    }
    // Rust links this target with lld, which knows both; the usual linkers of others may not.
    if is("TARGET", "x86_64-unknown-linux-gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo:rerun-if-changed={DEFINITIONS}");
    println!("cargo:rustc-cfg=packed_definitions");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(out.join("definitions.deflate"), pack::pack(Path::new(DEFINITIONS))?)
}
