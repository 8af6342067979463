//! Rows in columns; on a narrow screen one block per row.

use super::{Screen, columns, plain};

/// Draws rows under a heading. The last column may be cut into lines; where even that has no room, every row becomes a
/// block of its own.
pub fn table<const N: usize>(screen: Screen, heading: [&str; N], rows: &[[String; N]]) -> String {
    grid(screen, &heading, &rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>())
}

/// The same for as many columns as the heading has.
pub fn grid(screen: Screen, heading: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let width = |n: usize| {
        let cells = rows.iter().filter_map(|row| row.get(n)).map(|cell| columns(cell));
        cells.chain(heading.get(n).map(|cell| columns(cell))).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heading.len().saturating_sub(1)).map(width).collect();
    let indent: usize = widths.iter().map(|width| width + 2).sum();
    let longest = rows.iter().filter_map(|row| row.last()).max_by_key(|cell| columns(cell));
    let mut out = String::new();
    if longest.is_none_or(|cell| screen.has_room(indent, cell)) {
        let names: Vec<String> = heading.iter().map(|name| (*name).to_owned()).collect();
        line(screen, &mut out, &widths, indent, &names, true);
        for row in &rows {
            line(screen, &mut out, &widths, indent, row, false);
        }
        return out;
    }
    let label = heading.iter().map(|cell| columns(cell)).max().unwrap_or_default();
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        for (name, cell) in heading.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            let rest = " ".repeat(label + 2);
            screen.paragraph(&mut out, &format!("{name:label$}  "), &rest, label + 2, cell);
        }
    }
    out
}

/// One line; `widths` are those of all columns but the last.
fn line(screen: Screen, out: &mut String, widths: &[usize], indent: usize, row: &[String], heading: bool) {
    let mut first = String::new();
    for (cell, width) in row.iter().zip(widths) {
        first += &format!("{cell:width$}  ");
    }
    let last = row.get(widths.len()).map(String::as_str).unwrap_or_default();
    if heading {
        out.push_str(&format!("{}\n", screen.heading(format!("{first}{last}").trim_end())));
    } else {
        screen.paragraph(out, &first, &" ".repeat(indent), indent, last);
    }
}
