//! The options of COPY, in parentheses or as before PostgreSQL 9.0.

use super::ALL_COLUMNS;
use crate::error::{SqlError, state};
use crate::names;
use sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};

/// A format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Csv,
    Binary,
}

/// The options of a COPY.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// True for COPY … TO of a table, and not of a query.
    pub(super) of_table: bool,
    pub(super) format: Format,
    pub(super) delimiter: u8,
    /// The text of NULL.
    pub(super) null: Vec<u8>,
    /// True if the first line has the names of the columns.
    pub(super) header: bool,
    pub(super) quote: u8,
    pub(super) escape: u8,
    /// The columns whose values are always quoted.
    pub(super) force_quote: Vec<String>,
    /// The columns in which the text of NULL is a value.
    pub(super) force_not_null: Vec<String>,
    /// The columns in which the text of NULL is NULL even in quotes.
    pub(super) force_null: Vec<String>,
}

/// The options as they are given.
#[derive(Default)]
struct Given {
    format: Option<Format>,
    freeze: Option<bool>,
    encoding: Option<String>,
    delimiter: Option<char>,
    null: Option<String>,
    header: Option<bool>,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Option<Vec<String>>,
    force_not_null: Option<Vec<String>>,
    force_null: Option<Vec<String>>,
}

fn once<T>(option: &mut Option<T>, value: T) -> Result<(), SqlError> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::new(state::SYNTAX, "conflicting or redundant options")),
    }
}

fn all(columns: &[Ident]) -> Vec<String> {
    columns.iter().map(names::fold).collect()
}

impl Given {
    fn add(&mut self, option: &CopyOption) -> Result<(), SqlError> {
        match option {
            CopyOption::Format(name) => {
                let format = match name.value.to_lowercase().as_str() {
                    "text" => Format::Text,
                    "csv" => Format::Csv,
                    "binary" => Format::Binary,
                    other => {
                        let message = format!("COPY format \"{other}\" not recognized");
                        return Err(SqlError::new(state::INVALID_PARAMETER, message));
                    }
                };
                once(&mut self.format, format)
            }
            CopyOption::Freeze(on) => once(&mut self.freeze, *on),
            CopyOption::Delimiter(c) => once(&mut self.delimiter, *c),
            CopyOption::Null(text) => once(&mut self.null, text.clone()),
            CopyOption::Header(on) => once(&mut self.header, *on),
            CopyOption::Quote(c) => once(&mut self.quote, *c),
            CopyOption::Escape(c) => once(&mut self.escape, *c),
            CopyOption::ForceQuote(columns) => once(&mut self.force_quote, all(columns)),
            CopyOption::ForceNotNull(columns) => once(&mut self.force_not_null, all(columns)),
            CopyOption::ForceNull(columns) => once(&mut self.force_null, all(columns)),
            CopyOption::Encoding(name) => once(&mut self.encoding, name.clone()),
        }
    }

    fn add_legacy(&mut self, option: &CopyLegacyOption) -> Result<(), SqlError> {
        match option {
            CopyLegacyOption::Binary => once(&mut self.format, Format::Binary),
            CopyLegacyOption::Delimiter(c) => once(&mut self.delimiter, *c),
            CopyLegacyOption::Null(text) => once(&mut self.null, text.clone()),
            CopyLegacyOption::Header => once(&mut self.header, true),
            CopyLegacyOption::Csv(options) => {
                once(&mut self.format, Format::Csv)?;
                options.iter().try_for_each(|option| match option {
                    CopyLegacyCsvOption::Header => once(&mut self.header, true),
                    CopyLegacyCsvOption::Quote(c) => once(&mut self.quote, *c),
                    CopyLegacyCsvOption::Escape(c) => once(&mut self.escape, *c),
                    CopyLegacyCsvOption::ForceQuote(columns) => {
                        once(&mut self.force_quote, all(columns))
                    }
                    CopyLegacyCsvOption::ForceNotNull(columns) => {
                        once(&mut self.force_not_null, all(columns))
                    }
                })
            }
            other => Err(SqlError::unsupported(format!("the COPY option {other}"))),
        }
    }
}

/// Returns a character of an option as its byte.
fn byte(what: &str, c: char) -> Result<u8, SqlError> {
    match u8::try_from(c) {
        Ok(byte) if byte.is_ascii() && byte != 0 => Ok(byte),
        _ => {
            let message = format!("COPY {what} must be a single one-byte character");
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
        }
    }
}

impl Options {
    /// Returns the columns that options of COPY … FROM name.
    pub(super) fn force_columns(&self) -> impl Iterator<Item = &String> {
        self.force_not_null.iter().chain(&self.force_null)
    }

    /// True if rows are in PostgreSQL's binary format.
    pub(crate) fn is_binary(&self) -> bool {
        self.format == Format::Binary
    }

    /// Reads the options of COPY … FROM, or of COPY … TO.
    pub(super) fn read(
        options: &[CopyOption],
        legacy: &[CopyLegacyOption],
        to: bool,
    ) -> Result<Options, SqlError> {
        let mut given = Given::default();
        options.iter().try_for_each(|option| given.add(option))?;
        legacy.iter().try_for_each(|option| given.add_legacy(option))?;
        given.settle(to)
    }
}

impl Given {
    /// Checks the options together, in PostgreSQL's order, and adds the defaults.
    fn settle(self, to: bool) -> Result<Options, SqlError> {
        let format = self.format.unwrap_or(Format::Text);
        let (is_csv, is_binary) = (format == Format::Csv, format == Format::Binary);
        let refuse = |message: &str| Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        let wrong = |message: String| Err(SqlError::new(state::INVALID_PARAMETER, message));
        if let Some(name) = &self.encoding
            && !matches!(name.to_lowercase().as_str(), "utf8" | "utf-8" | "unicode")
        {
            return Err(SqlError::unsupported(format!("COPY with the encoding {name}")));
        }
        if is_binary {
            let present = [
                (self.delimiter.is_some(), "DELIMITER", state::SYNTAX),
                (self.null.is_some(), "NULL", state::SYNTAX),
                (self.header == Some(true), "HEADER", state::FEATURE_NOT_SUPPORTED),
            ];
            if let Some((_, what, sqlstate)) = present.iter().find(|(is_there, ..)| *is_there) {
                let message = format!("cannot specify {what} in BINARY mode");
                return Err(SqlError::new(sqlstate, message));
            }
        }
        let delimiter = match self.delimiter {
            Some(c) => byte("delimiter", c)?,
            None if is_csv => b',',
            None => b'\t',
        };
        if matches!(delimiter, b'\n' | b'\r') {
            return wrong("COPY delimiter cannot be newline or carriage return".into());
        }
        let null = match self.null {
            Some(text) => text,
            None if is_csv => String::new(),
            None => "\\N".into(),
        };
        if null.contains(['\n', '\r']) {
            let message = "COPY null representation cannot use newline or carriage return";
            return wrong(message.into());
        }
        // They would be read as data, or as escapes.
        if !is_csv && matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9') {
            return wrong(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter)));
        }
        if !is_csv && self.quote.is_some() {
            return refuse("COPY quote available only in CSV mode");
        }
        let quote = byte("quote", self.quote.unwrap_or('"'))?;
        if is_csv && delimiter == quote {
            return wrong("COPY delimiter and quote must be different".into());
        }
        if !is_csv && self.escape.is_some() {
            return refuse("COPY escape available only in CSV mode");
        }
        let escape = self.escape.map_or(Ok(quote), |c| byte("escape", c))?;
        let forced = [
            (self.force_quote.is_some(), "quote", true, "TO"),
            (self.force_not_null.is_some(), "not null", false, "FROM"),
            (self.force_null.is_some(), "null", false, "FROM"),
        ];
        for (_, what, direction, word) in forced.iter().filter(|(is_there, ..)| *is_there) {
            if !is_csv {
                return refuse(&format!("COPY force {what} available only in CSV mode"));
            }
            if to != *direction {
                return refuse(&format!("COPY force {what} only available using COPY {word}"));
            }
        }
        if null.as_bytes().contains(&delimiter) {
            return refuse("COPY delimiter must not appear in the NULL specification");
        }
        if is_csv && null.as_bytes().contains(&quote) {
            return refuse("CSV quote character must not appear in the NULL specification");
        }
        Ok(Options {
            of_table: false,
            format,
            delimiter,
            null: null.into_bytes(),
            header: self.header.unwrap_or(false),
            quote,
            escape,
            force_quote: self.force_quote.unwrap_or_default(),
            force_not_null: self.force_not_null.unwrap_or_default(),
            force_null: self.force_null.unwrap_or_default(),
        })
    }
}

/// Returns for each column of a COPY whether an option names it.
pub(super) fn named(
    option: &[String],
    columns: &[&str],
    what: &str,
) -> Result<Vec<bool>, SqlError> {
    if option.iter().any(|name| name == ALL_COLUMNS) {
        return Ok(vec![true; columns.len()]);
    }
    if let Some(name) = option.iter().find(|name| !columns.contains(&name.as_str())) {
        let message = format!("{what} column \"{name}\" not referenced by COPY");
        return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
    }
    Ok(columns.iter().map(|column| option.iter().any(|name| name == column)).collect())
}
