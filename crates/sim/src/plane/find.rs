//! Finding the binaries that `make plane` and `make capi` build, or the ones the machine already has.

use super::PlaneError;
use std::env;
use std::path::{Path, PathBuf};

/// The program that will serve the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// A directory with `kube-apiserver` and `etcd`.
    Assets(PathBuf),
    /// The plane: both of them, and a few controllers, in one program.
    Plane(PathBuf),
}

impl Server {
    /// Chooses the server, see the module's text for the order.
    pub fn find() -> Result<Self, PlaneError> {
        Self::choose(
            env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()).map(PathBuf::from),
            env::var_os("BERTH_PLANE").filter(|v| !v.is_empty()).map(PathBuf::from),
            &homes(),
        )
    }

    /// A server that was asked for by name is used or missed; only the last choice may be searched for.
    fn choose(assets: Option<PathBuf>, plane: Option<PathBuf>, homes: &[PathBuf]) -> Result<Self, PlaneError> {
        if let Some(dir) = assets {
            let missing: Vec<_> =
                ["kube-apiserver", "etcd"].iter().map(|name| dir.join(name)).filter(|path| !path.is_file()).collect();
            return match missing.first() {
                None => Ok(Self::Assets(dir)),
                Some(path) => Err(PlaneError::Bad {
                    doing: format!("using KUBEBUILDER_ASSETS={}", dir.display()),
                    why: format!("there is no {}", path.display()),
                }),
            };
        }
        if let Some(path) = plane {
            if path.is_file() {
                return Ok(Self::Plane(path));
            }
            return Err(PlaneError::Bad {
                doing: format!("using BERTH_PLANE={}", path.display()),
                why: "no such file".into(),
            });
        }
        homes
            .iter()
            .map(|home| home.join("bin/plane"))
            .find(|path| path.is_file())
            .map(Self::Plane)
            .ok_or_else(|| PlaneError::NotFound { tried: list(homes) })
    }
}

/// The first place that has a file of `target/plane`, such as `bin/capi-core`.
pub(super) fn built(what: &'static str, file: &str) -> Result<PathBuf, PlaneError> {
    let homes = homes();
    homes
        .iter()
        .map(|home| home.join(file))
        .find(|path| path.is_file())
        .ok_or_else(|| PlaneError::NotBuilt { what, path: homes.first().cloned().unwrap_or_default().join(file) })
}

/// Where `target/plane` may be: beside the plane that was named, in Cargo's target directory, or above here.
fn homes() -> Vec<PathBuf> {
    let named = env::var_os("BERTH_PLANE").map(PathBuf::from);
    let named = named.as_deref().and_then(Path::parent).and_then(Path::parent).map(Path::to_path_buf);
    let target = env::var_os("CARGO_TARGET_DIR").map(|dir| PathBuf::from(dir).join("plane"));
    let exe = env::current_exe().ok();
    // target/debug/x and target/debug/deps/x, whatever the target directory is called.
    let beside = exe.iter().flat_map(|exe| exe.ancestors().skip(2).take(2)).map(|dir| dir.join("plane"));
    let starts = [env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from), env::current_dir().ok(), exe.clone()];
    let above = starts.iter().flatten().flat_map(|start| start.ancestors()).map(|dir| dir.join("target/plane"));
    let mut homes = Vec::new();
    for home in named.into_iter().chain(target).chain(beside).chain(above) {
        if !homes.contains(&home) {
            homes.push(home);
        }
    }
    homes
}

fn list(homes: &[PathBuf]) -> String {
    let mut names: Vec<String> =
        homes.iter().take(3).map(|home| home.join("bin/plane").display().to_string()).collect();
    if homes.len() > names.len() {
        names.push("the directories above".into());
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn named_binaries_win_over_built_ones_and_are_never_silently_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("target/plane");
        touch(&home.join("bin/plane"));
        let homes = [home.clone()];
        assert_eq!(Server::choose(None, None, &homes).unwrap(), Server::Plane(home.join("bin/plane")));

        let other = dir.path().join("other");
        assert!(Server::choose(None, Some(other.clone()), &homes).unwrap_err().to_string().contains("BERTH_PLANE"));
        touch(&other);
        assert_eq!(Server::choose(None, Some(other.clone()), &homes).unwrap(), Server::Plane(other.clone()));

        let assets = dir.path().join("assets");
        touch(&assets.join("kube-apiserver"));
        let error = Server::choose(Some(assets.clone()), Some(other.clone()), &homes).unwrap_err().to_string();
        assert!(error.contains("etcd"), "{error}");
        touch(&assets.join("etcd"));
        assert_eq!(Server::choose(Some(assets.clone()), Some(other), &homes).unwrap(), Server::Assets(assets));
    }

    #[test]
    fn a_missing_server_names_the_command_that_builds_it() {
        let error = Server::choose(None, None, &[PathBuf::from("/nowhere/target/plane")]).unwrap_err();
        assert!(matches!(error, PlaneError::NotFound { .. }));
        let text = error.to_string();
        assert!(text.contains("make plane") && text.contains("/nowhere/target/plane/bin/plane"), "{text}");
    }
}
