//! Backslash commands: psql's, where psql has one.

use super::catalog;
use super::{Shell, Stop};
use std::path::Path;

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
            "\\dt" => self.list(catalog::TABLES, "There are no tables yet. CREATE TABLE makes one."),
            "\\di" => self.list(catalog::INDEXES, "There are no indexes yet."),
            "\\l" => self.list(catalog::DATABASES, "There are no databases."),
            "\\d" if argument.is_empty() => {
                self.list(catalog::TABLES, "There are no tables yet. CREATE TABLE makes one.")
            }
            "\\d" => self.describe(argument),
            "\\c" | "\\connect" if !argument.is_empty() => match self.backend.connect(&catalog::name(argument)) {
                Ok(()) => {
                    self.print(&format!("You are now connected to database \"{}\".\n", self.backend.database()));
                    Ok(())
                }
                Err(error) => self.complain(&error),
            },
            "\\c" | "\\connect" | "\\conninfo" => {
                self.print(&format!("{}\n", self.backend.describe()));
                Ok(())
            }
            "\\timing" => {
                self.timing = self.switch(word, argument, self.timing, "Timing")?;
                Ok(())
            }
            "\\x" => {
                self.style.expanded = self.switch(word, argument, self.style.expanded, "Expanded display")?;
                Ok(())
            }
            "\\i" | "\\include" if !argument.is_empty() => self.include(Path::new(argument.trim_matches('\''))),
            "\\i" | "\\include" => self.complain("\\i: which file?"),
            "\\demo" => match &mut self.extension {
                Some(extension) => match extension(argument) {
                    Ok(text) => {
                        self.print(&format!("{}\n", text.trim_end()));
                        Ok(())
                    }
                    Err(error) => self.complain(&error),
                },
                None => self.complain("\\demo works in the shell of `meridian demo` only"),
            },
            other => self.complain(&format!("there is no command {other}; \\? lists them")),
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
            text += &format!("  {command:<18} {meaning}\n");
        }
        if self.extension.is_some() {
            text += &format!("  {:<18} {}\n", "\\demo", "see and change what the demo runs");
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
        // Not every server shows its indexes; the columns are worth showing alone.
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
