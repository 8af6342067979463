use super::*;
use proptest::prelude::*;

fn web() -> Policy {
    Policy::new().schemes(&["http", "https", "oci"])
}

fn refused(url: &str) -> TargetError {
    Target::parse(url, &web()).expect_err(url)
}

#[test]
fn usual_endpoints_pass() {
    for url in [
        "https://ec2.eu-west-1.amazonaws.com/",
        "http://cloudstack.internal:8080/client/api",
        "https://10.0.0.1/",
        "https://192.168.1.1:8443/x?y=z",
        "https://[2001:db8::1]/",
        "https://[fd12:3456::1]:443/",
        "https://172.16.0.1/",
        "https://100.64.0.1/",
        "https://xn--bcher-kva.example/",
    ] {
        let target = Target::parse(url, &web()).expect(url);
        assert!(target.port() > 0);
    }
}

#[test]
fn every_spelling_of_a_forbidden_address_is_refused() {
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[64:ff9b:1:7f00:0:100::]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[2001:0:808:808:0:0:80ff:fffe]",
        "[::ffff:0:127.0.0.1]",
        "[2001:db8::5efe:7f00:1]",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "[fe80::1]",
        "[febf::1]",
        "[fec0::1]",
        "0.0.0.0",
        "0",
        "[::]",
        "224.0.0.1",
        "239.255.255.255",
        "[ff02::1]",
        "255.255.255.255",
        "250.1.1.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.b.localhost",
    ] {
        for scheme in ["http", "https", "oci"] {
            let url = format!("{scheme}://{host}:8080/x");
            assert!(Target::parse(&url, &web()).is_err(), "{url} passed");
        }
        let url = format!("https://{host}/");
        assert!(matches!(refused(&url), TargetError::Address { .. }), "{url}: {:?}", refused(&url));
    }
}

#[test]
fn parts_that_mislead_are_refused_by_name() {
    assert_eq!(refused("https://user@example.com/"), TargetError::UserInfo);
    assert_eq!(refused("https://user:secret@example.com/"), TargetError::UserInfo);
    assert_eq!(refused("https://@example.com/"), TargetError::UserInfo);
    assert_eq!(refused("https://example.com/#x"), TargetError::Fragment);
    assert_eq!(refused("https://example.com:0/"), TargetError::Port);
    assert_eq!(refused("oci://registry.example/x"), TargetError::Port);
    assert!(matches!(refused("https://example.com:65536/"), TargetError::Parse(_)));
    assert!(matches!(refused("ftp://example.com/"), TargetError::Scheme { .. }));
    assert!(matches!(refused("file:///etc/passwd"), TargetError::Scheme { .. }));
    assert!(matches!(refused("javascript:alert(1)"), TargetError::Scheme { .. }));
    for url in [
        "https://exa\tmple.com/",
        "https://example.com/\n",
        " https://example.com/",
        "https:\\\\example.com",
        "https://a b/",
    ] {
        assert_eq!(refused(url), TargetError::Characters, "{url}");
    }
    // A name in another script is written in its ASCII form, so that nobody takes it for another name.
    let scripts =
        ["bücher.example", "EXÄMPLE.com", "ex%C3%A4mple.com", "раураl.example", "１２７.0.0.1", "127。0。0。1"];
    for host in scripts {
        assert!(matches!(refused(&format!("https://{host}/")), TargetError::Parse(_)), "{host}");
        assert!(Target::parse(&format!("oci://{host}:8080/x"), &web()).is_err(), "{host}");
    }
    assert_eq!(refused(&format!("https://example.com/{}", "x".repeat(3000))), TargetError::TooLong);
    assert!(Target::parse("http://example.com/", &Policy::new()).is_err(), "plain HTTP must be asked for");
}

#[test]
fn neither_errors_nor_targets_show_passwords_or_queries() {
    let shown = format!("{:?} {}", refused("https://u:canary@example.com/"), refused("https://u:canary@example.com/"));
    assert!(!shown.contains("canary"), "{shown}");
    let target = Target::parse("https://example.com/canary?canary=canary", &web()).unwrap();
    assert!(!format!("{target:?}").contains("canary"));
}

#[test]
fn the_list_narrows_names_and_networks() {
    let list = ["api.example.com", "*.cloud.example", "10.1.0.0/16", "2001:db8::/32"].map(|text| text.parse().unwrap());
    let policy = web().only(list.clone());
    let host = |name: &str| Host::parse(name).unwrap();
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    assert!(policy.check_all(&host("api.example.com"), &[ip("8.8.8.8")]).is_ok());
    assert!(policy.check_all(&host("API.example.com."), &[ip("8.8.8.8")]).is_ok());
    assert!(policy.check_all(&host("a.cloud.example"), &[ip("8.8.8.8")]).is_ok());
    assert!(policy.check_all(&host("cloud.example"), &[ip("8.8.8.8")]).is_err());
    assert!(policy.check_all(&host("evilcloud.example"), &[ip("8.8.8.8")]).is_err());
    assert!(policy.check_all(&host("other.example"), &[ip("10.1.2.3"), ip("2001:db8::9")]).is_ok());
    assert!(policy.check_all(&host("other.example"), &[ip("10.1.2.3"), ip("8.8.8.8")]).is_err());
    assert!(policy.check_all(&host("api.example.com"), &[ip("127.0.0.1")]).is_err(), "a listed name is no excuse");
    assert!(policy.check_all(&host("api.example.com"), &[]).is_err());
    let names = web().only(list.into_iter().take(2));
    assert!(matches!(Target::parse("https://other.example/", &names), Err(TargetError::NotListed { .. })));
    assert!(Target::parse("https://10.1.2.3/", &names).is_err());
    for text in ["", "a b", "*.", "*.1.2.3.4", "http://x", "1.2.3.4/99", "x/y"] {
        assert!(text.parse::<Listed>().is_err(), "{text:?}");
    }
}

#[test]
fn loopback_is_admitted_only_where_it_is_asked_for() {
    let policy = web().admit(["127.0.0.0/8".parse().unwrap()]);
    assert!(Target::parse("http://127.0.0.1:9000/", &policy).is_ok());
    assert!(Target::parse("http://localhost:9000/", &policy).is_ok());
    assert!(Target::parse("http://[::ffff:127.0.0.1]:9000/", &policy).is_ok());
    assert!(Target::parse("http://[::1]:9000/", &policy).is_err());
    assert!(Target::parse("http://169.254.169.254/", &policy).is_err());
}

fn spelled(ip: Ipv4Addr, form: u8) -> String {
    let [a, b, c, d] = ip.octets();
    let whole = u32::from(ip);
    match form {
        0 => format!("{ip}"),
        1 => format!("{whole}"),
        2 => format!("{whole:#x}"),
        3 => format!("0{whole:o}"),
        4 => format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        5 => format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        6 => format!("{a}.{}", whole & 0xff_ffff),
        7 => format!("{a}.{b}.{}", whole & 0xffff),
        8 => format!("[::ffff:{ip}]"),
        9 => format!("[::{ip}]"),
        10 => format!("[64:ff9b::{ip}]"),
        11 => format!("[2002:{:02x}{:02x}:{:02x}{:02x}::1]", a, b, c, d),
        12 => format!("[64:ff9b:1::{ip}]"),
        13 => format!("[::ffff:0:{ip}]"),
        14 => format!("[2001:0:{:x}{:02x}:{:x}{:02x}::]", a, b, c, d),
        _ => format!("{ip}."),
    }
}

fn forbidden_ips() -> impl Strategy<Value = Ipv4Addr> {
    let nets = [(0x7f00_0000u32, 8), (0xa9fe_0000, 16), (0xe000_0000, 4), (0, 8), (0xf000_0000, 4)];
    (0..nets.len(), any::<u32>()).prop_map(move |(index, bits)| {
        let (net, length) = nets[index];
        Ipv4Addr::from(net | (bits & (u32::MAX >> length)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn no_spelling_of_a_forbidden_address_passes(ip in forbidden_ips(), form in 0u8..16, port in 1u16.., http: bool) {
        let scheme = if http { "http" } else { "oci" };
        let url = format!("{scheme}://{}:{port}/", spelled(ip, form));
        prop_assert!(Target::parse(&url, &web()).is_err(), "{} passed", url);
    }

    #[test]
    fn every_spelling_of_an_allowed_address_is_judged_like_the_address(bits: u32, form in 0u8..9) {
        let ip = Ipv4Addr::from(bits);
        let passed = Target::parse(&format!("https://{}/", spelled(ip, form)), &web()).is_ok();
        prop_assert_eq!(passed, forbidden(IpAddr::V4(ip)).is_none(), "{} as form {}", ip, form);
    }

    #[test]
    fn what_passes_has_none_of_the_refused_parts(text in "(https?|oci|ftp)?(://|:)[a-z0-9.@:\\[\\]%#?/\\\\ -]{0,40}") {
        if let Ok(target) = Target::parse(&text, &web()) {
            let url = target.url();
            prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
            prop_assert!(target.port() > 0 && !text.contains('\\') && !text.contains('#'));
            let literal = match target.host() {
                Host::Ipv4(ip) => Some(IpAddr::V4(*ip)),
                Host::Ipv6(ip) => Some(IpAddr::V6(*ip)),
                Host::Domain(_) => None,
            };
            prop_assert!(literal.is_none_or(|ip| forbidden(ip).is_none()));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(.|\n|\u{0}){0,80}") {
        let _ = Target::parse(&text, &web());
        let _ = text.parse::<Listed>();
    }
}
