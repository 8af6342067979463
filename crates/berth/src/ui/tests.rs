mod model;
mod serving;
mod world;

use clap::Parser;

use super::*;
use crate::cli::{Cli, Command};

/// The flags of `berth ui` with these arguments.
fn flags(args: &[&str]) -> UiOptions {
    match Cli::parse_from(["berth", "ui"].iter().chain(args)).command {
        Command::Ui(options) => *options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_port_alone_is_one_of_loopback() {
    let listens = |text: &str| listen(text).map(|address| address.to_string());
    assert_eq!(flags(&[]).listen.to_string(), "127.0.0.1:0");
    for (text, address) in [
        ("8090", "127.0.0.1:8090"),
        (":8090", "127.0.0.1:8090"),
        ("localhost:8090", "127.0.0.1:8090"),
        ("[::1]:8090", "[::1]:8090"),
        ("0.0.0.0:1", "0.0.0.0:1"),
    ] {
        assert_eq!(listens(text).as_deref(), Ok(address));
    }
    for wrong in ["", "harbour:80", "127.0.0.1", "65536"] {
        assert!(listens(wrong).is_err_and(|why| why.contains(wrong)), "{wrong}");
    }
}

#[test]
fn other_machines_are_let_in_only_on_purpose() {
    for address in ["0.0.0.0:8090", "[::]:8090", "192.0.2.7:8090"] {
        let args = ["--listen", address];
        let why = check(&flags(&args)).unwrap_err().to_string();
        assert!(why.contains("--expose") && why.contains("--listen"), "{why}");
        assert!(check(&flags(&[&args[..], &["--expose"]].concat())).is_ok());
    }
    for address in ["127.0.0.1:8090", "127.9.9.9:1", "[::1]:8090"] {
        assert!(check(&flags(&["--listen", address])).is_ok(), "{address}");
    }
    assert_eq!(reachable("0.0.0.0:80".parse().unwrap()).to_string(), "127.0.0.1:80");
    assert_eq!(reachable("[::]:80".parse().unwrap()).to_string(), "[::1]:80");
}

#[test]
fn what_cannot_work_is_refused_by_the_name_of_its_flag() {
    assert!(check(&flags(&["--interval=10ms"])).unwrap_err().to_string().contains("--interval"));
    assert!(check(&flags(&["--lookup"])).unwrap_err().to_string().contains("--lookup"));
    for args in [&["--from-file=x", "--context=y"][..], &["--from-file=x", "-n", "y"], &["--book=javascript:alert(1)"]]
    {
        assert!(Cli::try_parse_from(["berth", "ui"].iter().chain(args)).is_err(), "{args:?}");
    }
    assert!(flags(&["--open"]).open && !flags(&["--open=no"]).open);
}

#[test]
fn only_a_fleet_is_shown_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| {
        let path = dir.path().join("fleet.json");
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = r#"{"apiVersion":"cli.berth.dev/v1","kind":"Fleet","trees":[]}"#;
    let document = saved(&write(good), Some("https://book.example")).unwrap();
    assert_eq!(document["book"], "https://book.example");
    for wrong in ["", "[]", r#"{"kind":"Fleet"}"#, r#"{"apiVersion":"cli.berth.dev/v1","kind":"Tree"}"#] {
        let error = saved(&write(wrong), None).unwrap_err();
        assert!(error.is::<Usage>() && error.to_string().contains("--from-file"), "{error:#}");
    }
    assert!(saved(&dir.path().join("none"), None).unwrap_err().is::<Usage>());
}

#[test]
fn the_three_files_are_small_and_ask_nobody_else() {
    let files = [include_str!("page/index.html"), include_str!("page/ui.css"), include_str!("page/ui.js")];
    assert!(files.iter().map(|file| file.len()).sum::<usize>() < 300 << 10);
    for file in files {
        for foreign in ["http://", "https://", "//cdn", "@import", "url("] {
            assert!(!file.contains(foreign), "{foreign}");
        }
        for unsafe_way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!file.contains(unsafe_way), "{unsafe_way}");
        }
    }
}
