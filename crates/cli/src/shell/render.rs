//! Results as text: tables that fit a terminal, plain aligned columns in a pipe, one column below
//! the other with `\x`.

use super::backend::Heading;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table};
use std::fmt::Write;

/// The style of printed results.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// True if the output is a terminal.
    pub terminal: bool,
    /// `\x`
    pub expanded: bool,
}

/// The number of rows up to which a result is laid out as a table, which needs several passes over
/// all of it.
const TABLE_ROWS: usize = 2000;

impl Style {
    /// Renders a whole result.
    pub fn rows(&self, headings: &[Heading], rows: &[Vec<Option<String>>], tag: &str) -> String {
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|value| clean(value.as_deref())).collect())
            .collect();
        let numbers: Vec<bool> =
            headings.iter().enumerate().map(|(n, heading)| is_number(heading, rows, n)).collect();
        let mut out = if self.expanded {
            expanded(headings, &cells)
        } else if headings.is_empty() {
            "--\n".to_owned()
        } else if self.terminal && rows.len() <= TABLE_ROWS {
            boxed(headings, &numbers, &cells)
        } else {
            aligned(headings, &numbers, &cells)
        };
        let _ = writeln!(out, "({} {})", rows.len(), if rows.len() == 1 { "row" } else { "rows" });
        // Statements such as INSERT … RETURNING also print their command tag.
        if !tag.is_empty()
            && !tag.starts_with("SELECT")
            && !tag.starts_with("SHOW")
            && !tag.starts_with("EXPLAIN")
        {
            let _ = writeln!(out, "{tag}");
        }
        out
    }
}

/// Escapes control characters in data, so that they do not reach the terminal.
fn clean(value: Option<&str>) -> String {
    let Some(text) = value else { return "NULL".to_owned() };
    if !text.chars().any(|c| c.is_control() && c != '\n') {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => drop(write!(out, "\\x{:02X}", u32::from(c))),
            c => out.push(c),
        }
        out
    })
}

/// True if the column is right-aligned as a number. If its type is not known, the values decide.
fn is_number(heading: &Heading, rows: &[Vec<Option<String>>], column: usize) -> bool {
    heading.number.unwrap_or_else(|| {
        let mut some = false;
        rows.iter().filter_map(|row| row.get(column)?.as_deref()).all(|text| {
            some = true;
            text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
                && text.parse::<f64>().is_ok()
        }) && some
    })
}

/// Returns the number of terminal columns of a text. Wide characters of East Asia count twice,
/// combining marks not at all.
pub fn width(text: &str) -> usize {
    text.chars()
        .map(|c| match u32::from(c) {
            0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
            0x1100..=0x115f
            | 0x2e80..=0xa4cf
            | 0xac00..=0xd7a3
            | 0xf900..=0xfaff
            | 0xfe30..=0xfe6f => 2,
            0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
            _ => 1,
        })
        .sum()
}

fn boxed(headings: &[Heading], numbers: &[bool], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    // A terminal of unknown width reports 0, into which nothing fits.
    if table.width() != Some(0) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(
        headings
            .iter()
            .map(|heading| Cell::new(clean(Some(&heading.name))).add_attribute(Attribute::Bold)),
    );
    for row in rows {
        table.add_row(row);
    }
    for (column, number) in table.column_iter_mut().zip(numbers) {
        if *number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n")
}

/// psql's aligned format.
fn aligned(headings: &[Heading], numbers: &[bool], rows: &[Vec<String>]) -> String {
    let names: Vec<String> = headings.iter().map(|heading| clean(Some(&heading.name))).collect();
    let mut widths: Vec<usize> = names.iter().map(|name| width(name)).collect();
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(cell.split('\n').map(width).max().unwrap_or(0));
        }
    }
    let mut out = String::new();
    for (n, name) in names.iter().enumerate() {
        let space = widths[n] - width(name);
        let left = space / 2;
        let _ = write!(out, "{}{}{name}{}", bar(n), " ".repeat(left), " ".repeat(space - left));
        out.push_str(if n + 1 == names.len() { "\n" } else { " " });
    }
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    out += &dashes.join("+");
    out.push('\n');
    for row in rows {
        let lines: Vec<Vec<&str>> = row.iter().map(|cell| cell.split('\n').collect()).collect();
        let height = lines.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let mut text = String::new();
            for (n, cell) in lines.iter().enumerate() {
                let part = cell.get(line).copied().unwrap_or("");
                let space =
                    " ".repeat(widths.get(n).copied().unwrap_or(0).saturating_sub(width(part)));
                // psql marks a value that continues on the next line.
                let mark = if line + 1 < cell.len() { "+" } else { " " };
                let (before, behind) = if numbers.get(n) == Some(&true) {
                    (space, String::new())
                } else {
                    (String::new(), space)
                };
                let _ = write!(text, "{}{before}{part}{behind}{mark}", bar(n));
            }
            out += text.trim_end();
            out.push('\n');
        }
    }
    out
}

fn bar(column: usize) -> &'static str {
    if column == 0 { " " } else { "| " }
}

fn expanded(headings: &[Heading], rows: &[Vec<String>]) -> String {
    let widest = headings.iter().map(|heading| width(&heading.name)).max().unwrap_or(0);
    let mut out = String::new();
    for (n, row) in rows.iter().enumerate() {
        let _ = writeln!(out, "{:-<1$}", format!("-[ RECORD {} ]", n + 1), widest + 20);
        for (heading, cell) in headings.iter().zip(row) {
            for (line, part) in cell.split('\n').enumerate() {
                let name = if line == 0 { heading.name.as_str() } else { "" };
                let _ = writeln!(
                    out,
                    "{name}{} | {part}",
                    " ".repeat(widest.saturating_sub(width(name)))
                );
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(
        names: &[&str],
        rows: &[&[Option<&str>]],
    ) -> (Vec<Heading>, Vec<Vec<Option<String>>>) {
        (
            names.iter().map(|name| Heading { name: (*name).into(), number: None }).collect(),
            rows.iter()
                .map(|row| row.iter().map(|value| value.map(str::to_owned)).collect())
                .collect(),
        )
    }

    const PIPE: Style = Style { terminal: false, expanded: false };

    #[test]
    fn a_pipe_gets_psqls_aligned_text() {
        let (headings, rows) = result(
            &["id", "name"],
            &[&[Some("1"), Some("Zoë")], &[Some("20"), None], &[Some("3"), Some("a\nbc")]],
        );
        assert_eq!(
            PIPE.rows(&headings, &rows, "SELECT 3"),
            " id | name\n----+------\n  1 | Zoë\n 20 | NULL\n  3 | a   +\n    | bc\n(3 rows)\n"
        );
    }

    #[test]
    fn a_result_without_rows_or_columns_is_shown_too() {
        let (headings, rows) = result(&["a"], &[]);
        assert_eq!(PIPE.rows(&headings, &rows, ""), " a\n---\n(0 rows)\n");
        assert_eq!(PIPE.rows(&[], &[vec![]], ""), "--\n(1 row)\n");
    }

    #[test]
    fn returning_says_what_was_done() {
        let (headings, rows) = result(&["a"], &[&[Some("x")]]);
        assert!(PIPE.rows(&headings, &rows, "INSERT 0 1").ends_with("(1 row)\nINSERT 0 1\n"));
    }

    #[test]
    fn expanded_shows_one_column_below_the_other() {
        let (headings, rows) = result(&["id", "name"], &[&[Some("1"), Some("x")]]);
        let shown = Style { expanded: true, ..PIPE }.rows(&headings, &rows, "");
        assert_eq!(shown, "-[ RECORD 1 ]-----------\nid   | 1\nname | x\n(1 row)\n");
    }

    #[test]
    fn escape_sequences_in_data_do_not_reach_the_terminal() {
        let (headings, rows) = result(&["a"], &[&[Some("\u{1b}[2J\u{7}")]]);
        for terminal in [false, true] {
            let shown = Style { terminal, expanded: false }.rows(&headings, &rows, "");
            assert!(shown.contains("\\x1B[2J\\x07"), "{shown}");
            assert!(!shown.contains('\u{7}'));
        }
    }
}
