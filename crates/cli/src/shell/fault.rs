//! Errors and notices in PostgreSQL's format, with a caret under the position.

use std::fmt::Write;

/// An error or a notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// `ERROR`, `WARNING`, `NOTICE` …
    pub severity: String,
    /// The five characters of the SQLSTATE; empty if there is none.
    pub sqlstate: String,
    /// The message, on one line.
    pub message: String,
    /// The detail.
    pub detail: Option<String>,
    /// The hint.
    pub hint: Option<String>,
    /// The position in the statement, in characters counted from 1.
    pub position: Option<usize>,
}

/// The number of characters of a long line that are shown on either side of the position.
const WINDOW: usize = 60;

impl Fault {
    /// Returns an error of the shell itself.
    pub fn error(message: impl Into<String>) -> Fault {
        Fault { severity: "ERROR".into(), message: message.into(), ..Fault::default() }
    }

    /// Returns the text for a person, with the file and the number of the statement's first line,
    /// if known.
    pub fn show(&self, sql: &str, place: Option<(&str, usize)>) -> String {
        let mut out = String::new();
        if let Some((file, line)) = place {
            let _ = write!(out, "{file}:{line}: ");
        }
        let _ = write!(out, "{}:  ", self.severity);
        if self.severity == "ERROR" && !self.sqlstate.is_empty() {
            let _ = write!(out, "{}: ", self.sqlstate);
        }
        let _ = writeln!(out, "{}", self.message);
        if let Some(position) = self.position {
            out += &caret(sql, position);
        }
        for (word, text) in [("DETAIL", &self.detail), ("HINT", &self.hint)] {
            if let Some(text) = text {
                let _ = writeln!(out, "{word}:  {text}");
            }
        }
        out
    }
}

/// Returns the line that holds a position, and a caret under it; empty if the position is outside.
fn caret(sql: &str, position: usize) -> String {
    let Some(before) = position.checked_sub(1).filter(|before| *before <= sql.chars().count())
    else {
        return String::new();
    };
    let mut left = before;
    for (number, line) in (1..).zip(sql.split('\n')) {
        let line = line.trim_end_matches('\r');
        let length = line.chars().count();
        if left <= length {
            let first = left.saturating_sub(WINDOW);
            let shown: String = line
                .chars()
                .skip(first)
                .take(2 * WINDOW)
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let prefix = format!("LINE {number}: {}", if first > 0 { "..." } else { "" });
            let width = render_width(&prefix)
                + render_width(&shown.chars().take(left - first).collect::<String>());
            return format!("{prefix}{shown}\n{}^\n", " ".repeat(width));
        }
        left -= length + 1;
    }
    String::new()
}

fn render_width(text: &str) -> usize {
    super::render::width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let fault = Fault {
            sqlstate: "42703".into(),
            position: Some(8),
            hint: Some("Did you mean \"name\"?".into()),
            ..Fault::error("column \"nmae\" does not exist")
        };
        assert_eq!(
            fault.show("select nmae from t", None),
            "ERROR:  42703: column \"nmae\" does not exist\n\
             LINE 1: select nmae from t\n               ^\nHINT:  Did you mean \"name\"?\n"
        );
    }

    #[test]
    fn lines_are_counted_and_characters_are_not_bytes() {
        assert_eq!(caret("select 'ä',\n  boom", 14 + 1), "LINE 2:   boom\n          ^\n");
        assert_eq!(caret("select 'ä', x", 13), "LINE 1: select 'ä', x\n                    ^\n");
    }

    #[test]
    fn a_position_outside_shows_nothing() {
        for position in [0, 9, usize::MAX] {
            assert_eq!(caret("select", position), "", "{position}");
        }
        assert_eq!(caret("select", 7), "LINE 1: select\n              ^\n");
    }

    #[test]
    fn of_a_long_line_the_neighbourhood_is_shown() {
        let sql = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let shown = caret(&sql, 501);
        let (line, mark) = shown.split_once('\n').expect("two lines");
        assert_eq!(line.chars().nth(mark.find('^').expect("a caret")), Some('X'));
        assert!(line.len() < 140);
    }
}
