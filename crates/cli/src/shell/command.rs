//! Backslash commands: psql's, where psql has one.

use super::catalog;
use super::{Shell, Stop};
use std::path::Path;

/// The argument of `\copy`.
#[derive(Debug, PartialEq, Eq)]
struct Copy<'a> {
    /// The table with its columns, or a query in parentheses.
    what: &'a str,
    is_to: bool,
    file: &'a str,
    options: &'a str,
}

/// Returns the length of the text in parentheses that an argument begins with; 0 if it has none.
fn parenthesized(argument: &str) -> Option<usize> {
    if !argument.starts_with('(') {
        return Some(0);
    }
    let (mut depth, mut quoted) = (0_usize, false);
    for (at, c) in argument.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Parses the argument of `\copy`; `None` if it names no table or no file.
fn copied(argument: &str) -> Option<Copy<'_>> {
    let query = parenthesized(argument)?;
    // Lower case keeps the positions of ASCII, which the words are.
    let lower = argument.to_ascii_lowercase();
    let find = |word: &str| lower[query..].find(word).map(|at| (query + at, word.len()));
    let (from, to) = (find(" from "), find(" to "));
    let is_to = to.is_some_and(|to| from.is_none_or(|from| to < from));
    let (at, length) = if is_to { to? } else { from? };
    let (what, rest) = (argument[..at].trim(), argument[at + length..].trim());
    let (file, options) = match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'')?,
        None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
    };
    let is_stream = ["stdin", "stdout"].iter().any(|word| file.eq_ignore_ascii_case(word));
    let wanted = !what.is_empty() && !file.is_empty() && !is_stream;
    wanted.then_some(Copy { what, is_to, file, options: options.trim() })
}

impl Shell {
    /// Runs a line that begins with a backslash.
    pub(super) fn command(&mut self, line: &str) -> Result<(), Stop> {
        let line = line.trim_end_matches(';').trim_end();
        let (word, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        match word {
            "\\q" | "\\quit" | "\\exit" => Err(Stop::Quit),
            "\\?" | "\\h" | "\\help" => {
                self.help();
                Ok(())
            }
            "\\dt" => {
                self.list(catalog::TABLES, "There are no tables yet. CREATE TABLE makes one.")
            }
            "\\di" => self.list(catalog::INDEXES, "There are no indexes yet."),
            "\\l" => self.list(catalog::DATABASES, "There are no databases."),
            "\\d" if argument.is_empty() => {
                self.list(catalog::TABLES, "There are no tables yet. CREATE TABLE makes one.")
            }
            "\\d" => self.describe(argument),
            "\\c" | "\\connect" if !argument.is_empty() => {
                match self.backend.connect(&catalog::name(argument)) {
                    Ok(()) => {
                        self.print(&format!(
                            "You are now connected to database \"{}\".\n",
                            self.backend.database()
                        ));
                        Ok(())
                    }
                    Err(error) => self.complain(&error),
                }
            }
            "\\c" | "\\connect" | "\\conninfo" => {
                self.print(&format!("{}\n", self.backend.describe()));
                Ok(())
            }
            "\\timing" => {
                self.timing = self.switch(word, argument, self.timing, "Timing")?;
                Ok(())
            }
            "\\x" => {
                self.style.expanded =
                    self.switch(word, argument, self.style.expanded, "Expanded display")?;
                Ok(())
            }
            "\\i" | "\\include" if !argument.is_empty() => {
                self.include(Path::new(argument.trim_matches('\'')))
            }
            "\\i" | "\\include" => self.complain("\\i: which file?"),
            "\\copy" => self.copy(argument),
            "\\demo" => match &mut self.extension {
                Some(extension) => match extension(argument) {
                    Ok(text) => {
                        self.print(&format!("{}\n", text.trim_end()));
                        self.backend.look(); // The command may have killed this session's node.
                        Ok(())
                    }
                    Err(error) => self.complain(&error),
                },
                None => self.complain("\\demo works in the shell of `meridian demo` only"),
            },
            other => self.complain(&format!("there is no command {other}; \\? lists them")),
        }
    }

    /// Runs `\copy TABLE [(COLUMNS)] from FILE [OPTIONS]`, or `to FILE`: COPY, with the rows in a
    /// local file.
    fn copy(&mut self, argument: &str) -> Result<(), Stop> {
        let Some(Copy { what, is_to, file, options }) = copied(argument) else {
            return self.complain(
                "\\copy TABLE [(COLUMNS)] from 'FILE' [OPTIONS], or \\copy TABLE or (QUERY) to 'FILE' [OPTIONS]",
            );
        };
        let direction = if is_to { "TO STDOUT" } else { "FROM STDIN" };
        let sql = format!("COPY {what} {direction} {options}").trim_end().to_owned();
        if is_to {
            return self.send(&sql, None, Some(Path::new(file)), None);
        }
        match std::fs::read(file) {
            Ok(data) => self.send(&sql, Some(&data), None, None),
            Err(error) => self.complain(&format!("cannot read {file}: {error}")),
        }
    }

    fn switch(&mut self, word: &str, argument: &str, now: bool, what: &str) -> Result<bool, Stop> {
        let next = match argument {
            "" => !now,
            "on" => true,
            "off" => false,
            _ => return self.complain(&format!("{word}: on or off, not {argument}")).map(|()| now),
        };
        self.print(&format!("{what} is {}.\n", if next { "on" } else { "off" }));
        Ok(next)
    }

    fn help(&self) {
        let mut text = String::from("SQL ends with ;\n\n");
        for (command, meaning) in catalog::COMMANDS {
            text += &format!("  {command:<23} {meaning}\n");
        }
        if self.extension.is_some() {
            text += &format!("  {:<23} {}\n", "\\demo", "see and change what the demo runs");
        }
        self.print(&text);
    }

    fn query(&mut self, sql: &str) -> Result<catalog::Found, Stop> {
        catalog::query(self.backend.as_mut(), sql).map_err(|error| {
            eprint!("{error}");
            Stop::Failed
        })
    }

    fn list(&mut self, sql: &str, nothing: &str) -> Result<(), Stop> {
        let (headings, rows) = self.query(sql)?;
        if rows.is_empty() {
            self.print(&format!("{nothing}\n"));
        } else {
            self.print(&self.style.rows(&headings, &rows, ""));
        }
        Ok(())
    }

    fn describe(&mut self, typed: &str) -> Result<(), Stop> {
        let name = catalog::name(typed);
        let (headings, rows) = self.query(&catalog::columns(&name))?;
        if rows.is_empty() {
            return self.complain(&format!("there is no table \"{name}\"; \\dt lists them"));
        }
        self.print(&format!("Table \"{name}\"\n{}", self.style.rows(&headings, &rows, "")));
        // Not every server lists its indexes; the columns are printed without them.
        if let Ok((_, indexes)) = catalog::query(self.backend.as_mut(), &catalog::indexes_of(&name))
            && !indexes.is_empty()
        {
            let mut text = String::from("Indexes:\n");
            for index in &indexes {
                let part = |n: usize| index.get(n).and_then(Option::as_deref).unwrap_or("");
                text += &format!("    {}\n", if part(1).is_empty() { part(0) } else { part(1) });
            }
            self.print(&text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Copy, copied};

    #[test]
    fn a_copy_names_a_table_or_query_and_a_file() {
        let some = |what, is_to, file, options| Some(Copy { what, is_to, file, options });
        for (typed, found) in [
            ("t from a.tsv", some("t", false, "a.tsv", "")),
            (
                "t (a, b) FROM 'my file' with (null '')",
                some("t (a, b)", false, "my file", "with (null '')"),
            ),
            ("t to a.csv csv", some("t", true, "a.csv", "csv")),
            (
                "(select ')' from t where (a = 1)) TO 'from here'",
                some("(select ')' from t where (a = 1))", true, "from here", ""),
            ),
            ("(select 1 to a.tsv", None),
            ("t from stdin", None),
            ("t to stdout", None),
            ("t from 'open", None),
            ("", None),
        ] {
            assert_eq!(copied(typed), found, "{typed}");
        }
    }
}
