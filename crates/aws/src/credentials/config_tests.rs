use proptest::prelude::*;

use super::*;

const ROLE: &str = "arn:aws:iam::123456789012:role/berth";
const TOKEN: &str = "/var/run/secrets/openshift/serviceaccount/token";

fn read(text: &str) -> Result<Source, ConfigError> {
    from_config_text(text, &TokenPaths::default())
}

fn keys(source: Source) -> Keys {
    match source {
        Source::Keys(keys) => keys,
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_and_session_tokens_are_read() {
    let found = keys(read("[default]\naws_access_key_id=AKID\naws_secret_access_key = s3cr=t/+ # note\n").unwrap());
    assert_eq!((found.id.as_str(), found.secret.expose().as_str(), found.session), ("AKID", "s3cr=t/+", None));
    let text = "; note\r\n[ default ] # mine\r\n  AWS_ACCESS_KEY_ID = AKID\r\naws_secret_access_key = x\r\naws_session_token=t\r\nregion = eu-west-1\r\n[other]\r\ncredential_process = /bin/evil\r\n";
    let found = keys(read(text).unwrap());
    assert_eq!(found.session.unwrap().expose(), "t");
}

#[test]
fn the_sts_form_of_openshift_is_read() {
    let text = format!(
        "[default]\nsts_regional_endpoints = regional\nrole_arn = {ROLE}\nweb_identity_token_file = {TOKEN}\nrole_session_name = berth\n"
    );
    let Source::WebIdentity(found) = read(&text).unwrap() else { panic!("not a web identity") };
    assert_eq!(found.role.as_str(), ROLE);
    assert_eq!((found.token_file.to_str(), found.session_name.as_deref()), (Some(TOKEN), Some("berth")));
}

#[test]
fn whatever_would_run_read_or_borrow_is_refused_by_name() {
    for key in [
        "credential_process",
        "source_profile",
        "credential_source",
        "sso_start_url",
        "sso_session",
        "sso_account_id",
        "mfa_serial",
        "CREDENTIAL_PROCESS",
    ] {
        for rest in [
            "aws_access_key_id = a\naws_secret_access_key = b\n".to_owned(),
            format!("role_arn = {ROLE}\nweb_identity_token_file = {TOKEN}\n"),
            String::new(),
        ] {
            let error = read(&format!("[default]\n{rest}{key} = canary\n")).unwrap_err();
            let shown = error.to_string();
            assert!(matches!(error, ConfigError::Refused { .. }), "{error}");
            assert!(shown.starts_with(&key.to_lowercase()) && !shown.contains("canary"), "{shown}");
        }
    }
}

#[test]
fn token_files_outside_the_allowed_folders_are_refused() {
    let read = |file: &str, allowed: &TokenPaths| {
        from_config_text(&format!("[default]\nrole_arn = {ROLE}\nweb_identity_token_file = {file}\n"), allowed)
    };
    for file in [
        "/etc/shadow",
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "/var/run/secrets/openshift/serviceaccount",
        "/var/run/secrets/openshift/serviceaccountx/token",
    ] {
        assert_eq!(read(file, &TokenPaths::default()), Err(ConfigError::TokenOutside), "{file}");
    }
    for file in ["token", "../token", "/var/run/secrets/openshift/serviceaccount/../../../../etc/shadow", "~/token"] {
        assert_eq!(read(file, &TokenPaths::default()), Err(ConfigError::TokenPath), "{file}");
    }
    assert!(read("/tokens/aws/x", &TokenPaths::new([PathBuf::from("/tokens/aws")])).is_ok());
    assert_eq!(read(TOKEN, &TokenPaths::new([])), Err(ConfigError::TokenOutside));
}

#[test]
fn incomplete_or_doubtful_texts_say_what_is_missing() {
    for (text, said) in [
        ("", "no profile [default]"),
        ("[other]\na=b", "no profile [default]"),
        ("[default]\n", "neither"),
        ("[default]\naws_access_key_id = a", "aws_access_key_id needs aws_secret_access_key"),
        ("[default]\naws_secret_access_key = a", "aws_secret_access_key needs aws_access_key_id"),
        ("[default]\naws_access_key_id = \naws_secret_access_key = a", "aws_secret_access_key needs"),
        ("[default]\nrole_arn = arn:aws:iam::123456789012:role/a", "role_arn needs web_identity_token_file"),
        ("[default]\nweb_identity_token_file = /x", "web_identity_token_file needs role_arn"),
        ("[default]\nrole_arn = x\nweb_identity_token_file = /x", "role_arn is not the ARN"),
        ("[default]\ncanary", "line 2: must be a setting"),
        ("[default\n", "line 1: a section needs"),
        ("[default] canary\n", "line 1: only a comment"),
        ("[default]\n= canary\n", "line 2: a setting needs a name"),
    ] {
        let shown = read(text).unwrap_err().to_string();
        assert!(shown.contains(said) && !shown.contains("canary"), "{text:?}: {shown}");
    }
    let both = format!(
        "[default]\naws_access_key_id=a\naws_secret_access_key=b\nrole_arn={ROLE}\nweb_identity_token_file={TOKEN}"
    );
    assert_eq!(read(&both), Err(ConfigError::Both));
    assert_eq!(read(&"#".repeat(LIMIT + 1)), Err(ConfigError::TooLong));
}

#[test]
fn a_secret_is_read_in_its_documented_order() {
    let data = |pairs: &[(&str, &str)]| -> BTreeMap<String, Vec<u8>> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect()
    };
    let read = |pairs: &[(&str, &str)]| from_secret(&data(pairs), &TokenPaths::default());
    let plain = [("aws_access_key_id", "AKID\n"), ("aws_secret_access_key", "secret\n")];
    let found = keys(read(&plain).unwrap());
    assert_eq!((found.id.as_str(), found.secret.expose().as_str()), ("AKID", "secret"));
    let session = [plain[0], plain[1], ("aws_session_token", "t")];
    assert_eq!(keys(read(&session).unwrap()).session.unwrap().expose(), "t");
    let config = "[default]\naws_access_key_id=FIRST\naws_secret_access_key=x";
    assert_eq!(keys(read(&[plain[0], plain[1], ("credentials", config)]).unwrap()).id, "FIRST");
    assert_eq!(keys(read(&[plain[0], plain[1], ("credentials", "  \n")]).unwrap()).id, "AKID");
    assert_eq!(read(&[plain[0]]), Err(SecretError::Nothing));
    assert_eq!(read(&[("aws_access_key_id", ""), plain[1]]), Err(SecretError::Nothing));
    assert!(matches!(read(&[plain[0], plain[1], ("credentials", "[x")]), Err(SecretError::Config(_))));
    let mut binary = data(&plain);
    binary.insert("aws_secret_access_key".to_owned(), vec![0xff]);
    let refused = from_secret(&binary, &TokenPaths::default());
    assert_eq!(refused, Err(SecretError::NotText("aws_secret_access_key")));
}

#[test]
fn the_secret_of_a_static_identity_is_read() {
    let data = |pairs: &[(&str, &[u8])]| -> BTreeMap<String, Vec<u8>> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), v.to_vec())).collect()
    };
    let full: [(&str, &[u8]); 3] = [("AccessKeyID", b"AKID\n"), ("SecretAccessKey", b"x"), ("SessionToken", b"t")];
    let found = keys(from_static_identity(&data(&full)).unwrap());
    assert_eq!((found.id.as_str(), found.session.unwrap().expose().as_str()), ("AKID", "t"));
    assert_eq!(keys(from_static_identity(&data(&full[..2])).unwrap()).session, None);
    assert_eq!(from_static_identity(&data(&full[..1])), Err(SecretError::Missing("SecretAccessKey")));
    assert_eq!(from_static_identity(&data(&full[1..])), Err(SecretError::Missing("AccessKeyID")));
    assert_eq!(from_static_identity(&data(&[("AccessKeyID", &[0xff])])), Err(SecretError::NotText("AccessKeyID")));
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("[default]".to_owned()),
        Just("[profile default]".to_owned()),
        Just("[other]".to_owned()),
        Just(format!("role_arn = {ROLE}")),
        Just(format!("web_identity_token_file = {TOKEN}")),
        Just("aws_access_key_id = AKID".to_owned()),
        Just("aws_secret_access_key = x".to_owned()),
        Just("credential_process = /bin/evil".to_owned()),
        Just("  sso_session=x".to_owned()),
        Just("source_profile = other".to_owned()),
        Just("web_identity_token_file = /etc/shadow".to_owned()),
        "[ -~]{0,40}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_text_panics_or_gives_more_than_keys_or_an_allowed_role(lines in prop::collection::vec(line(), 0..12)) {
        let text = lines.join("\n");
        match read(&text) {
            Ok(Source::Keys(keys)) => prop_assert!(!keys.id.is_empty() && !keys.secret.expose().is_empty()),
            Ok(Source::WebIdentity(identity)) => {
                prop_assert!(identity.token_file.starts_with("/var/run/secrets/openshift/serviceaccount"));
                prop_assert!(!identity.token_file.to_str().unwrap().contains(".."));
            }
            Ok(other) => prop_assert!(false, "{:?}", other),
            Err(error) => prop_assert!(!error.to_string().contains("/bin/evil")),
        }
    }

    #[test]
    fn a_refused_setting_of_the_default_profile_is_always_refused(
        before in prop::collection::vec("[a-z_]{1,20} ?= ?[a-z/]{0,20}", 0..5),
        key in prop::sample::select(vec!["credential_process", "source_profile", "sso_region", "credential_source"]),
        indent in "[ \t]{0,3}",
    ) {
        let text = format!("[default]\n{}\n{indent}{key} = x\n", before.join("\n"));
        prop_assert!(matches!(read(&text), Err(ConfigError::Refused { .. })), "{text}");
    }

    #[test]
    fn any_bytes_in_a_secret_are_read_or_refused(
        key in prop::sample::select(vec!["credentials", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut data: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        data.insert("aws_access_key_id".to_owned(), b"AKID".to_vec());
        data.insert("aws_secret_access_key".to_owned(), b"x".to_vec());
        data.insert(key.to_owned(), bytes);
        let _ = from_secret(&data, &TokenPaths::default());
    }
}
