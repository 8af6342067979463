use std::cell::Cell;

use clap::Parser;

use super::*;
use crate::screen::tests::at_widths;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Berth {
    name: &'static str,
    zone: &'static str,
    free: u32,
    labels: Vec<String>,
}

impl Cells for Berth {
    const COLUMNS: &'static [&'static str] = &["name", "zone", "free"];

    fn cells(&self) -> Vec<String> {
        vec![self.name.to_owned(), self.zone.to_owned(), self.free.to_string()]
    }

    fn labels(&self) -> Option<&[String]> {
        Some(&self.labels)
    }
}

fn harbour() -> Vec<Berth> {
    let berth = |name, zone, free, size: &str| Berth { name, zone, free, labels: vec![format!("size={size}")] };
    vec![
        berth("north", "a", 9, "large"),
        berth("south", "b", 10, "large"),
        berth("east, inner", "a", 0, "small"),
        berth("=west", "", 2, "large"),
    ]
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    rows: RowOptions,
}

fn flags(args: &[&str]) -> RowOptions {
    Flags::try_parse_from(["x"].iter().chain(args)).unwrap_or_else(|error| panic!("{error}")).rows
}

fn names(args: &[&str]) -> Vec<&'static str> {
    flags(args).choose(harbour(), true).unwrap().into_iter().map(|berth| berth.name).collect()
}

#[test]
fn rows_are_chosen_by_what_they_are_are_not_and_hold() {
    assert_eq!(names(&["--filter", "zone=a"]), ["north", "east, inner"]);
    assert_eq!(names(&["--filter", "zone!=a"]), ["south", "=west"]);
    assert_eq!(names(&["--filter", "name~th"]), ["north", "south"]);
    assert_eq!(names(&["--filter", "zone="]), ["=west"]);
    assert_eq!(names(&["--filter", "label:size=large", "--filter", "zone!=b"]), ["north", "=west"]);
    assert_eq!(names(&["--filter", "name=a=b"]), [""; 0], "a value may hold the sign");
    for wrong in ["zone", "=a", "", "zone!a"] {
        assert!(filter(wrong).is_err_and(|why| why.contains(wrong)), "{wrong}");
    }
}

#[test]
fn rows_are_ordered_by_size_by_letters_and_the_other_way_around() {
    assert_eq!(names(&["--sort", "free"]), ["east, inner", "=west", "north", "south"]);
    assert_eq!(names(&["--sort=-free"]), ["south", "north", "=west", "east, inner"]);
    assert_eq!(names(&["--sort", "zone,-free"]), ["=west", "north", "east, inner", "south"]);
    assert_eq!(names(&[]), ["north", "south", "east, inner", "=west"], "as they are");
}

#[test]
fn a_column_that_is_not_there_is_named_with_those_that_are() {
    for args in [["--filter", "zoen=a"], ["--sort", "zoen"], ["--by", "zoen"], ["--by", "label:size"]] {
        let Err(Usage(why)) = flags(&args).choose(harbour(), false) else { panic!("{args:?} is taken") };
        assert!(why.starts_with(args[0]) && why.contains("name, zone, free"), "{why}");
    }
}

#[test]
fn rows_are_counted_and_the_most_frequent_come_first() {
    let told = |args: &[&str]| {
        let options = flags(args);
        let rows = options.choose(harbour(), true).unwrap();
        options.render("BerthList", &rows, &rows, |_| String::new()).unwrap()
    };
    insta::assert_snapshot!("counts_for_programs", told(&["--by", "zone,label:size", "-o", "json"]));
    assert_eq!(told(&["--by", "zone", "-o", "csv"]), "zone,count\na,2\n,1\nb,1\n");
    let document: serde_json::Value = serde_json::from_str(&told(&["--by", "zone,label:size", "-o", "json"])).unwrap();
    assert_eq!(
        (&document["apiVersion"], &document["kind"], &document["of"], &document["total"]),
        (&"cli.berth.dev/v1".into(), &"CountList".into(), &"BerthList".into(), &4.into())
    );
    assert_eq!(document["items"][0], serde_json::json!({"values": {"zone": "", "label:size": "large"}, "count": 1}));
    let (by, rows) = (["zone".to_owned(), "label:size".to_owned()], harbour());
    let counted: Vec<(Vec<String>, usize)> =
        rows.iter().map(|row| (by.iter().map(|column| value(row, column).unwrap()).collect(), 1)).collect();
    insta::assert_snapshot!("counts", at_widths(|screen| counts_screen(screen, &by, &counted)));
}

#[test]
fn a_spreadsheet_gets_every_column_and_takes_nothing_for_a_formula() {
    let (options, rows) = (flags(&["-o", "csv"]), harbour());
    let text = options.render("BerthList", &rows, &rows, |_| String::new()).unwrap();
    assert_eq!(text, "name,zone,free\nnorth,a,9\nsouth,b,10\n\"east, inner\",a,0\n'=west,,2\n");
}

/// What is written while these are found one after another.
async fn followed(terminal: bool, found: &[Result<&str, &str>]) -> (String, anyhow::Result<()>) {
    let (mut out, at) = (Vec::new(), Cell::new(0));
    let interval = Duration::from_secs(2);
    let rounds = u32::try_from(found.len()).unwrap();
    let stop = async {
        tokio::time::sleep(interval * rounds - Duration::from_secs(1)).await;
        Ok(())
    };
    let look = async || {
        let next = found[at.replace(at.get() + 1)];
        next.map(|text| format!("{text}\n")).map_err(|why| anyhow::anyhow!("{why}"))
    };
    let ended = follow(&mut out, terminal, interval, stop, look).await;
    assert!(at.get() <= found.len());
    (String::from_utf8(out).unwrap(), ended)
}

#[tokio::test(start_paused = true)]
async fn what_has_not_changed_is_not_shown_again() {
    let (shown, ended) = followed(false, &[Ok("one"), Ok("one"), Ok("two"), Ok("two")]).await;
    assert_eq!(shown, "one\n\ntwo\n");
    assert!(ended.is_ok());
    let (shown, _) = followed(true, &[Ok("one"), Ok("one"), Ok("two")]).await;
    assert_eq!(shown, format!("{CLEAR}one\n{CLEAR}two\n"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_ends_a_program_and_is_waited_for_by_people() {
    let found = [Ok("one"), Err("no answer"), Ok("one")];
    let (shown, ended) = followed(true, &found).await;
    assert!(ended.is_ok() && shown.contains("not seen: no answer") && shown.ends_with("one\n"), "{shown}");
    let (shown, ended) = followed(false, &found).await;
    assert_eq!((shown.as_str(), ended.unwrap_err().to_string().as_str()), ("one\n", "no answer"));
    let (shown, ended) = followed(true, &[Err("never there")]).await;
    assert!(shown.is_empty() && ended.is_err(), "what was never seen is an error");
}
