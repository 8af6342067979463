use proptest::prelude::*;

use super::*;

const ROLE: &str = "arn:aws:iam::123456789012:role/berth";

fn vars(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn files(config: &str, credentials: &str) -> Files {
    let some = |text: &str| Some(Secret::new(text.to_owned()));
    Files { config: some(config), credentials: some(credentials) }
}

fn decide(pairs: &[(&str, &str)], files: &Files) -> Result<Ambient, AmbientError> {
    Ambient::decide(&vars(pairs), files)
}

fn described(pairs: &[(&str, &str)], files: &Files) -> String {
    decide(pairs, files).map_or_else(|error| kit::class::chain(&error), |found| found.source().describe())
}

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "x")];
const IDENTITY: [(&str, &str); 2] = [("AWS_ROLE_ARN", ROLE), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/t")];
const RELATIVE: (&str, &str) = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
const OFF: (&str, &str) = ("AWS_EC2_METADATA_DISABLED", "true");
const FILE: &str = "[default]\naws_access_key_id = FILE\naws_secret_access_key = x";

#[test]
fn sources_are_taken_in_the_order_of_other_tools() {
    let (none, file) = (Files::default(), files("", FILE));
    let all = [KEYS[0], KEYS[1], IDENTITY[0], IDENTITY[1], RELATIVE];
    assert_eq!(described(&all, &file), "keys ENV");
    assert_eq!(described(&all[2..], &file), "keys FILE");
    assert_eq!(described(&all[2..], &none), format!("web identity {ROLE}"));
    assert_eq!(described(&all[4..], &none), "the container's credential service");
    assert_eq!(described(&[], &none), "the machine's metadata service");
    assert_eq!(decide(&[OFF], &none), Err(AmbientError::None));
}

#[test]
fn only_a_web_identity_or_a_container_address_is_evidence() {
    let none = Files::default();
    let evidence = |pairs: &[(&str, &str)]| decide(pairs, &none).unwrap().evidence();
    assert_eq!(evidence(&IDENTITY), Evidence::Given);
    assert_eq!(evidence(&[RELATIVE]), Evidence::Given);
    assert_eq!(evidence(&KEYS), Evidence::Guessed);
    assert_eq!(evidence(&[]), Evidence::Guessed);
}

#[test]
fn half_of_a_pair_is_an_error_that_names_the_other_half() {
    for (pair, other) in [(KEYS, [1, 0]), (IDENTITY, [1, 0])] {
        for (has, lacks) in [(0, other[0]), (1, other[1])] {
            let shown = described(&[pair[has]], &files("", FILE));
            assert_eq!(shown, format!("{} is set but {} is not", pair[has].0, pair[lacks].0));
        }
    }
    let bad = [("AWS_ROLE_ARN", "canary"), IDENTITY[1]];
    assert_eq!(described(&bad, &Files::default()), "AWS_ROLE_ARN is not the ARN of a role");
}

#[test]
fn a_container_is_asked_at_its_address_with_its_token() {
    let source = |pairs: &[(&str, &str)]| decide(pairs, &Files::default()).unwrap().source().clone();
    let Source::Container { uri, auth } = source(&[RELATIVE]) else { panic!("no container") };
    assert_eq!((uri.as_str(), auth), ("http://169.254.170.2/v2/x", ContainerAuth::None));
    let full = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials");
    let file = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/var/run/token");
    let Source::Container { uri, auth } = source(&[full, file, ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "x")]) else {
        panic!("no container")
    };
    assert_eq!((uri.as_str(), auth), (full.1, ContainerAuth::File("/var/run/token".into())));
    assert!(decide(&[(RELATIVE.0, "v2/x")], &Files::default()).is_err());
}

#[test]
fn the_metadata_service_is_found_where_it_is_said_to_be() {
    let endpoint = |pairs: &[(&str, &str)]| match decide(pairs, &Files::default()).unwrap().source() {
        Source::InstanceMetadata { endpoint } => endpoint.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(endpoint(&[]), "http://169.254.169.254");
    assert_eq!(endpoint(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6")]), "http://[fd00:ec2::254]");
    assert_eq!(endpoint(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:99/")]), "http://127.0.0.1:99");
}

#[test]
fn profiles_chain_roles_and_refuse_programs() {
    let config = format!(
        "[profile top]\nrole_arn = arn:aws:iam::222222222222:role/top\nsource_profile = mid\nexternal_id = e\nduration_seconds = 900\n\
         [profile mid]\nrole_arn = arn:aws:iam::111111111111:role/mid\nsource_profile = base\n\
         [base]\naws_access_key_id = B\naws_secret_access_key = x\n\
         [profile own]\nrole_arn = {ROLE}\nsource_profile = own\naws_access_key_id = O\naws_secret_access_key = x\n\
         [profile web]\nrole_arn = {ROLE}\nweb_identity_token_file = /anywhere\n\
         [profile machine]\nrole_arn = {ROLE}\ncredential_source = Ec2InstanceMetadata\n\
         [profile env]\nrole_arn = {ROLE}\ncredential_source = Environment\n\
         [profile circle]\nrole_arn = {ROLE}\nsource_profile = circle2\n[profile circle2]\nrole_arn = {ROLE}\nsource_profile = circle\n\
         [profile program]\ncredential_process = /bin/canary\n[profile lost]\nrole_arn = {ROLE}\nsource_profile = gone\n[profile region]\nregion = x\n"
    );
    let files = files(&config, "");
    for (profile, said) in [
        ("top", "role arn:aws:iam::222222222222:role/top from role arn:aws:iam::111111111111:role/mid from keys B"),
        ("own", "role arn:aws:iam::123456789012:role/berth from keys O"),
        ("web", "web identity arn:aws:iam::123456789012:role/berth"),
        ("machine", "role arn:aws:iam::123456789012:role/berth from the machine's metadata service"),
        ("env", "the profile env is not usable: credential_source is refused: what it names is not there"),
        ("circle", "the profile circle takes on too many roles one after the other"),
        (
            "program",
            "the profile program is not usable: credential_process is refused: no program is run for credentials",
        ),
        ("lost", "the profile gone is not usable: there is no profile [gone]"),
        ("nowhere", "the profile nowhere is not usable: there is no profile [nowhere]"),
    ] {
        assert_eq!(described(&[("AWS_PROFILE", profile)], &files), said);
    }
    assert!(described(&[("AWS_PROFILE", "region")], &files).contains("neither"));
    let only_region = Files { config: Some(Secret::new("[default]\nregion = x".to_owned())), credentials: None };
    assert_eq!(described(&[], &only_region), "the machine's metadata service");
    let Ok(Ambient { source: Source::Role(top), .. }) = decide(&[("AWS_PROFILE", "top")], &files) else {
        panic!("no role")
    };
    assert_eq!((top.external_id.as_deref(), top.duration_seconds), (Some("e"), Some(900)));
}

#[test]
fn a_broken_file_is_an_error_and_not_quoted() {
    let shown = described(&[], &files("", "[default\ncanary"));
    assert!(
        shown.starts_with("the shared credentials file is not usable: line 1") && !shown.contains("canary"),
        "{shown}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_environment_and_no_file_panics(
        pairs in prop::collection::vec((prop::sample::select(vec![
            "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_DISABLED",
        ]), "(true|default|a|/x|arn:aws:iam::123456789012:role/a|[ -~]{0,12})"), 0..6),
        config in "(\\[(default|profile a|a)\\]\n|(role_arn|source_profile|credential_source|aws_access_key_id|aws_secret_access_key) = (a|default|Environment|arn:aws:iam::123456789012:role/a)\n){0,12}",
    ) {
        let vars: BTreeMap<String, String> = pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let files = Files { config: Some(Secret::new(config)), credentials: None };
        if let Ok(found) = Ambient::decide(&vars, &files) {
            prop_assert!(found.source().depth() <= LINKS + 1);
        }
    }
}
