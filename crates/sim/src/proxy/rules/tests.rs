//! Every rule is read as written, and a wrong one is refused with its field.

use super::*;
use proptest::prelude::*;

fn field(document: &str) -> String {
    parse(document).unwrap_err().field
}

#[test]
fn every_action_is_read_from_its_documented_form() {
    let actions = [
        r#"{"delay":{"ms":5}}"#,
        r#"{"answer":{"status":429,"headers":{"retry-after":"1"},"body":{"kind":"Status"}}}"#,
        r#"{"reset_before":{}}"#,
        r#"{"reset_after":{"hold_ms":10,"connection":true}}"#,
        r#"{"cut_watch":{"after":2}}"#,
        r#"{"gone":{"after":2}}"#,
        r#"{"half_line":{"after":2,"abrupt":true}}"#,
        r#"{"duplicate_line":{"line":1}}"#,
        r#"{"swap_lines":{"line":1}}"#,
        r#"{"drop_line":{"line":1}}"#,
        r#"{"only_bookmarks":{}}"#,
        r#"{"replay":{"back":2}}"#,
        r#"{"slow_body":{"bytes_per_second":10}}"#,
        r#"{"bucket":{"rate":0.5,"burst":3}}"#,
    ];
    for action in actions {
        let rules = parse(&format!(r#"[{{"name":"a","action":{action}}}]"#)).unwrap();
        let name = rules[0].action.name();
        assert!(action.starts_with(&format!("{{\"{name}\"")), "{action} was read as {name}");
        let written = serde_json::to_string(&rules).unwrap();
        assert_eq!(parse(&written).unwrap(), rules);
    }
}

#[test]
fn the_error_names_the_field() {
    let action = r#""action":{"delay":{"ms":1}}"#;
    let cases = [
        ("{", "rules"),
        ("3", "rules"),
        (r#"{"rulez":[]}"#, "rulez"),
        (r#"{"rules":3}"#, "rules"),
        (r#"[{"name":"a"}]"#, "rules[0]"),
        (r#"[{"name":"","action":{"delay":{"ms":1}}}]"#, "rules[0].name"),
        (&format!(r#"[{{"name":"a",{action}}},{{"name":"a",{action}}}]"#), "rules[1].name"),
        (&format!(r#"[{{"name":"a",{action},"match":{{"methods":["get"]}}}}]"#), "rules[0].match.methods"),
        (&format!(r#"[{{"name":"a",{action},"match":{{"methods":[3]}}}}]"#), "rules[0].match.methods[0]"),
        (&format!(r#"[{{"name":"a",{action},"match":{{"path":"api"}}}}]"#), "rules[0].match.path"),
        (&format!(r#"[{{"name":"a",{action},"match":{{"pth":"/"}}}}]"#), "rules[0].match.pth"),
        (&format!(r#"[{{"name":"a",{action},"match":{{"body":""}}}}]"#), "rules[0].match.body"),
        (&format!(r#"[{{"name":"a",{action},"when":{{"nth":0}}}}]"#), "rules[0].when.nth"),
        (&format!(r#"[{{"name":"a",{action},"when":{{"nth":"x"}}}}]"#), "rules[0].when.nth"),
        (&format!(r#"[{{"name":"a",{action},"when":{{"nth":1,"first":2}}}}]"#), "rules[0].when"),
        (&format!(r#"[{{"name":"a",{action},"when":{{"probability":1.5}}}}]"#), "rules[0].when.probability"),
        (r#"[{"name":"a","action":{"delay":{"ms":-1}}}]"#, "rules[0].action.delay.ms"),
        (r#"[{"name":"a","action":{"delay":{"ms":600001}}}]"#, "rules[0].action.delay.ms"),
        (r#"[{"name":"a","action":{"answer":{"status":99}}}]"#, "rules[0].action.answer.status"),
        (
            r#"[{"name":"a","action":{"answer":{"status":200,"headers":{"a b":"c"}}}}]"#,
            "rules[0].action.answer.headers",
        ),
        (r#"[{"name":"a","action":{"answer":{"status":200,"size":5}}}]"#, "rules[0].action.answer.size"),
        (r#"[{"name":"a","action":{"swap_lines":{"line":0}}}]"#, "rules[0].action.swap_lines.line"),
        (r#"[{"name":"a","action":{"replay":{"back":0}}}]"#, "rules[0].action.replay.back"),
        (r#"[{"name":"a","action":{"replay":{"back":3,"keep":2}}}]"#, "rules[0].action.replay.keep"),
        (
            r#"[{"name":"a","action":{"slow_body":{"bytes_per_second":0}}}]"#,
            "rules[0].action.slow_body.bytes_per_second",
        ),
        (
            r#"[{"name":"a","action":{"replay":{"back":1,"max_bytes":268435456}}},
                {"name":"b","action":{"replay":{"back":1,"max_bytes":268435456}}},
                {"name":"c","action":{"replay":{"back":1}}}]"#,
            "rules[2].action.replay.max_bytes",
        ),
        (r#"[{"name":"a","action":{"bucket":{"rate":0,"burst":1}}}]"#, "rules[0].action.bucket.rate"),
        (r#"[{"name":"a","action":{"bucket":{"rate":1,"burst":0}}}]"#, "rules[0].action.bucket.burst"),
    ];
    for (document, wanted) in cases {
        assert_eq!(field(document), wanted, "{document}");
    }
    let unknown = parse(r#"[{"name":"a","action":{"explode":{}}}]"#).unwrap_err();
    assert!(unknown.to_string().contains("explode"), "{unknown}");
}

#[test]
fn a_star_stands_for_any_run_of_characters() {
    for (pattern, text, wanted) in [
        ("/api/v1/pods", "/api/v1/pods", true),
        ("/api/v1/pods", "/api/v1/pods/a", false),
        ("/api/*/pods", "/api/v1/namespaces/x/pods", true),
        ("*/status", "/apis/x/status", true),
        ("*/status", "/apis/x/statuses", false),
        ("*", "", true),
        ("/a*b*c", "/aXbXbc", true),
        ("/a*b*c", "/aXbXb", false),
    ] {
        assert_eq!(fits(pattern, text), wanted, "{pattern} on {text}");
    }
}

/// The plain recursive definition, too slow for use and too short to be wrong.
fn fits_by_definition(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            fits_by_definition(&pattern[1..], text) || (!text.is_empty() && fits_by_definition(pattern, &text[1..]))
        }
        (Some(a), Some(b)) if a == b => fits_by_definition(&pattern[1..], &text[1..]),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]
    #[test]
    fn patterns_mean_what_their_definition_says(pattern in "[ab*]{0,7}", text in "[ab]{0,8}") {
        prop_assert_eq!(fits(&pattern, &text), fits_by_definition(pattern.as_bytes(), text.as_bytes()));
    }
}
