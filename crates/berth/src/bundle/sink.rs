//! Where the files of a bundle go: an archive, or a directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::tar::Tar;

/// Takes the files of a bundle, one after the other.
pub trait Sink {
    /// Adds a file; its path is relative and has `/` between its parts.
    ///
    /// # Errors
    /// When it cannot be written.
    fn put(&mut self, path: &str, content: &[u8]) -> io::Result<()>;
}

/// A bundle on disk. Only its owner may read it.
pub enum Place {
    /// One compressed archive; it gets its name when it is whole.
    Archive(Box<Archive>),
    /// A directory with the files in it.
    Directory(PathBuf),
}

/// An archive that is being written.
pub struct Archive {
    tar: Tar<GzEncoder<BufWriter<File>>>,
    /// The directory inside of the archive that everything is in.
    root: String,
    partial: PathBuf,
    path: PathBuf,
}

/// Whether a path asks for an archive; otherwise it is a directory.
pub fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".tar.gz") || name.ends_with(".tgz")
}

impl Place {
    /// Makes the file or the directory.
    ///
    /// # Errors
    /// When it is there already or cannot be made.
    pub fn open(path: &Path, changed: u64) -> io::Result<Self> {
        if path.exists() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is there already; choose another name"));
        }
        if !is_archive(path) {
            fs::DirBuilder::new().mode(0o700).create(path)?;
            return Ok(Self::Directory(path.to_owned()));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        let root = name.to_string_lossy().trim_end_matches(".tgz").trim_end_matches(".tar.gz").to_owned();
        name.push(".partial");
        let partial = path.with_file_name(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        let tar = Tar::new(GzEncoder::new(BufWriter::new(file), Compression::default()), changed);
        Ok(Self::Archive(Box::new(Archive { tar, root, partial, path: path.to_owned() })))
    }

    /// Gives up: half an archive is of no use to anybody. A directory stays, as far as it goes.
    pub fn discard(self) {
        if let Self::Archive(archive) = self {
            // It may be gone already, and there is nobody who could do more about it.
            let _ = fs::remove_file(&archive.partial);
        }
    }

    /// Ends it: an archive has its name from now on.
    ///
    /// # Errors
    /// When it cannot be written to its end.
    pub fn finish(self) -> io::Result<()> {
        let Self::Archive(archive) = self else { return Ok(()) };
        let Archive { tar, partial, path, .. } = *archive;
        let mut out = tar.finish()?.finish()?;
        out.flush()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(partial, path)
    }
}

impl Sink for Place {
    fn put(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        match self {
            Self::Archive(archive) => archive.tar.file(&format!("{}/{path}", archive.root), content),
            Self::Directory(root) => {
                let path = root.join(path);
                if let Some(parent) = path.parent() {
                    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
                }
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
                file.write_all(content)
            }
        }
    }
}

/// A name as one part of a path: nothing in it leads elsewhere.
pub fn part(name: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let name: String = name.chars().map(|c| if safe(c) { c } else { '_' }).collect();
    if name.is_empty() || name.chars().all(|c| c == '.') { "_".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_archive_has_its_name_only_when_it_is_whole_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.tar.gz");
        let mut place = Place::open(&path, 0).unwrap();
        place.put("a/x.json", b"{}").unwrap();
        assert!(!path.exists());
        place.finish().unwrap();
        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut tar).unwrap();
        assert_eq!(super::super::tar::tests::files(&tar), [("b/a/x.json".to_owned(), b"{}".to_vec())]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        assert!(Place::open(&path, 0).is_err_and(|error| error.to_string().contains("there already")));
    }

    #[test]
    fn anything_else_is_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle");
        let mut place = Place::open(&path, 0).unwrap();
        place.put("a/b/x.txt", b"x").unwrap();
        place.finish().unwrap();
        assert_eq!(fs::read(path.join("a/b/x.txt")).unwrap(), b"x");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(
            is_archive(Path::new("x.tgz")) && is_archive(Path::new("d/x.tar.gz")) && !is_archive(Path::new("x.tar"))
        );
    }

    #[test]
    fn no_name_leads_out_of_the_bundle() {
        assert_eq!(["..", ".", "", "a/b", "web-1.x", "a\u{0}b"].map(part), ["_", "_", "_", "a_b", "web-1.x", "a_b"]);
    }
}
