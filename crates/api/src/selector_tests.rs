use super::*;

fn requirement(key: &str, operator: &str, values: &[&str]) -> HostRequirement {
    HostRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }
}

fn selector(requirements: &[HostRequirement]) -> Result<Selector, Vec<SelectorFault>> {
    Selector::read(&HostSelector { match_expressions: requirements.to_vec(), ..HostSelector::default() })
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<Box<str>, Box<str>> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

#[test]
fn every_spelling_of_an_operator_means_the_same() {
    type Case = (&'static [&'static str], &'static [&'static str], &'static [(&'static str, bool)]);
    let cases: [Case; 9] = [
        (&["=", "=="], &["1"], &[("1", true), ("2", false), ("", false)]),
        (&["!="], &["1"], &[("1", false), ("2", true), ("", true)]),
        (&["in", "In"], &["1", "2"], &[("1", true), ("2", true), ("3", false), ("", false)]),
        (&["notin", "NotIn"], &["1", "2"], &[("1", false), ("3", true), ("", true)]),
        (&["exists", "Exists"], &[], &[("1", true), ("", false)]),
        (&["!", "DoesNotExist"], &[], &[("1", false), ("", true)]),
        (&["gt", "Gt"], &["5"], &[("6", true), ("5", false), ("x", false), ("", false)]),
        (&["lt", "Lt"], &["5"], &[("4", true), ("5", false), ("-1", true), ("", false)]),
        (&["lt"], &["-1"], &[("-2", true), ("0", false)]),
    ];
    let mut spellings = 0;
    for (operators, values, expected) in cases {
        for operator in operators {
            spellings += 1;
            let found = selector(&[requirement("a", operator, values)]).unwrap();
            for (value, fits) in expected {
                let labels = if value.is_empty() { labels(&[]) } else { labels(&[("a", value)]) };
                assert_eq!(found.fits(&labels), *fits, "{operator} {values:?} on {value:?}");
            }
            assert_eq!(Operator::read(Operator::read(operator).unwrap().as_str()), Operator::read(operator));
        }
    }
    assert_eq!(spellings, 16);
    for word in crate::own::OPERATORS {
        assert!(Operator::read(word).is_some(), "{word}");
    }
}

#[test]
fn equal_wishes_are_equal_however_they_are_written() {
    let plain = HostSelector {
        match_labels: [("a".to_owned(), "1".to_owned())].into(),
        match_expressions: vec![requirement("b", "in", &["2", "1", "2"])],
        in_namespace: None,
    };
    let other = selector(&[requirement("b", "In", &["1", "2"]), requirement("a", "==", &["1"])]).unwrap();
    assert_eq!(Selector::read(&plain).unwrap(), other);
    assert!(Selector::default().fits(&labels(&[])));
    assert!(Selector::default().is_empty());
}

#[test]
fn every_fault_is_named_with_its_path() {
    let faults = Selector::read(&HostSelector {
        match_labels: [("-a".to_owned(), "x y".to_owned())].into(),
        match_expressions: vec![
            requirement("a", "like", &["1"]),
            requirement("a", "=", &["1", "2"]),
            requirement("a", "in", &[]),
            requirement("a", "exists", &["1"]),
            requirement("a", "gt", &["five"]),
            requirement("a", "notin", &["ok", "not ok"]),
            requirement("A/b/c", "!", &[]),
        ],
        in_namespace: None,
    })
    .unwrap_err();
    let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "matchLabels[-a]",
            "matchLabels[-a]",
            "matchExpressions[0].operator",
            "matchExpressions[1].values",
            "matchExpressions[2].values",
            "matchExpressions[3].values",
            "matchExpressions[4].values",
            "matchExpressions[5].values[1]",
            "matchExpressions[6].key",
        ]
    );
    assert!(faults[2].to_string().contains("not \"like\""), "{}", faults[2]);
}

#[test]
fn label_keys_and_values_are_accepted_and_refused_at_their_edges() {
    let long = "a".repeat(63);
    for key in ["a", "A.b_c-9", "example.org/a", &long, &format!("{}/{long}", ["a"; 127].join("."))] {
        assert_eq!(key_problem(key), None, "{key}");
    }
    for key in ["", "/a", "a/", "-a", "a-", "a b", "UPPER.org/a", "a/b/c", "ä", &format!("{long}a")] {
        assert!(key_problem(key).is_some(), "{key}");
    }
    for value in ["", "a", "A.b_c-9", &long] {
        assert_eq!(value_problem(value), None, "{value}");
    }
    for value in ["-a", "a/b", "a b", &format!("{long}a")] {
        assert!(value_problem(value).is_some(), "{value}");
    }
}

#[test]
fn hosts_can_be_chosen_by_name_and_hardware() {
    let hardware = Figures { arch: Some("x86_64"), ram_mib: 196_607, cpu_count: 64, nics: 2 };
    // Nobody can pretend by writing a label of that key.
    let written = labels(&[(ARCH_LABEL, "riscv"), (HOST_NAME_LABEL, "other"), ("rack", "1")]);
    let host = HostLabels { name: "h1", labels: &written, hardware: Some(hardware) };
    let fits = |key: &str, operator: &str, values: &[&str]| {
        selector(&[requirement(key, operator, values)]).unwrap().fits(&host)
    };
    assert!(fits(HOST_NAME_LABEL, "in", &["h1", "h2"]));
    assert!(!fits(HOST_NAME_LABEL, "=", &["other"]));
    assert!(fits(ARCH_LABEL, "=", &["x86_64"]));
    assert!(fits(RAM_LABEL, "gt", &["190"]) && !fits(RAM_LABEL, "gt", &["191"]));
    assert!(fits(CPU_COUNT_LABEL, "lt", &["65"]) && fits(NIC_COUNT_LABEL, "=", &["2"]));
    assert!(fits("rack", "exists", &[]));
    let unknown = HostLabels { hardware: None, ..host };
    let inspected = selector(&[requirement(RAM_LABEL, "exists", &[])]).unwrap();
    assert!(!inspected.fits(&unknown) && inspected.fits(&host));
}
