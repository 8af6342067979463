//! Kubeconfigs, read as everything else in YAML is: into values first. What kube has for it compiles a reader of YAML for each type
//! in the file, a third of a megabyte in a release.

use std::path::{Path, PathBuf};

use kube::config::{Kubeconfig, KubeconfigError};
use serde_json::Value;

/// What kubectl takes instead of the default file: one file, or several.
const VARIABLE: &str = "KUBECONFIG";

/// The files that `KUBECONFIG` names, as one, or the user's default one.
pub(super) fn usual() -> Result<Kubeconfig, KubeconfigError> {
    let named: Vec<PathBuf> = std::env::var_os(VARIABLE)
        .map(|paths| std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    if named.is_empty() {
        let home = std::env::home_dir().ok_or(KubeconfigError::FindPath)?;
        return read(&home.join(".kube").join("config"));
    }
    named.iter().try_fold(Kubeconfig::default(), |all, path| all.merge(read(path)?))
}

/// One file. What it names beside it is found from wherever the process runs.
pub(super) fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let unread = |error| KubeconfigError::ReadConfig(error, path.to_owned());
    let mut file = parse(&std::fs::read_to_string(path).map_err(unread)?)?;
    let beside = |named: &mut Option<String>| {
        if let (Some(name), Some(dir)) = (&named, path.parent())
            && Path::new(name).is_relative()
            && let Some(found) = dir.join(name).to_str()
        {
            *named = Some(found.to_owned());
        }
    };
    for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        beside(&mut cluster.certificate_authority);
    }
    for user in file.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        beside(&mut user.client_certificate);
        beside(&mut user.client_key);
        beside(&mut user.token_file);
        // A bare name is looked for as a shell does.
        if let Some(exec) = user.exec.as_mut().filter(|exec| exec.command.iter().any(|command| command.contains('/'))) {
            beside(&mut exec.command);
        }
    }
    Ok(file)
}

/// A text, which may hold several documents. Of what is wrong with it only the kind is told, because it holds keys.
pub(super) fn parse(text: &str) -> Result<Kubeconfig, KubeconfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| bad(&error.to_string()))?;
    documents.into_iter().filter(|document| !document.is_null()).try_fold(Kubeconfig::default(), |all, document| {
        all.merge(serde_json::from_value(document).map_err(|error| bad(&error.to_string()))?)
    })
}

fn bad(told: &str) -> KubeconfigError {
    // Further lines show the text; a value that has the wrong type stands in quotation marks.
    let line = told.lines().next().unwrap_or_default();
    let shown = if line.starts_with("invalid") { line.split(['`', '"']).next().unwrap_or_default() } else { line };
    KubeconfigError::Parse(Box::new(serde::de::Error::custom(shown.trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "9182736455";

    fn user(fields: &str) -> String {
        format!("apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user: {{{fields}}}\n")
    }

    #[test]
    fn what_a_file_names_is_found_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let text = user(
            "client-certificate: pki/a.crt, client-key: /b.key, tokenFile: t, exec: {command: ./get, apiVersion: v1}",
        ) + "- name: v\n  user: {exec: {command: aws, apiVersion: v1}}\n\
               clusters:\n- name: c\n  cluster: {server: \"https://10.0.0.5:6443\", certificate-authority: ca.crt}\n";
        let path = dir.path().join("config");
        std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
        let file = read(&path).unwrap();
        let at = |name: &str| Some(dir.path().join(name).to_str().unwrap().to_owned());
        let [u, v] = file.auth_infos.as_slice() else { panic!("two users") };
        let (u, v) = (u.auth_info.as_ref().unwrap(), v.auth_info.as_ref().unwrap());
        assert_eq!((u.client_certificate.clone(), u.token_file.clone()), (at("pki/a.crt"), at("t")));
        assert_eq!(u.client_key.as_deref(), Some("/b.key"));
        let command = |user: &kube::config::AuthInfo| user.exec.as_ref().unwrap().command.clone();
        assert_eq!((command(u), command(v)), (at("./get"), Some("aws".to_owned())));
        assert_eq!(file.clusters[0].cluster.as_ref().unwrap().certificate_authority, at("ca.crt"));
    }

    #[test]
    fn of_several_documents_the_first_to_say_something_counts() {
        let text = "current-context: a\n---\n---\ncurrent-context: b\ncontexts: [{name: b, context: {cluster: c}}]\n";
        let file = parse(text).unwrap();
        assert_eq!((file.current_context.as_deref(), file.contexts.len()), (Some("a"), 1));
        assert!(parse("").unwrap().clusters.is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_read_shows_nothing_that_it_holds() {
        for fields in [
            format!("token: {CANARY}"),
            format!("token: [{CANARY}]"),
            format!("client-key-data: \"{CANARY}\", token: {{"),
            format!("token: \"{CANARY}\n"),
            format!("token: \"{CANARY}\", exec: \"{CANARY}\""),
        ] {
            let error = parse(&user(&fields)).unwrap_err();
            let told = crate::class::chain(&error);
            assert!(!told.contains(CANARY) && told.contains("kubeconfig"), "{fields}: {told}");
        }
    }
}
