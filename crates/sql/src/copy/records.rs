//! Cuts the data of COPY … FROM into records, and these into values.

use super::binary;
use super::options::{Format, Options, named};
use super::{LONGEST_RECORD_BYTES, bad, csv, text};
use crate::error::{SqlError, state};
use std::borrow::Cow;
use std::ops::Range;

/// A value as it was sent; `None` for NULL.
pub(super) type Value<'a> = Option<Cow<'a, [u8]>>;

/// The values of a row.
pub(super) struct Record<'a> {
    /// The number of its last line, or of the row if it has no lines.
    pub(super) line: u64,
    pub(super) values: Vec<Value<'a>>,
}

/// The end of lines: the end of the first line, which all others must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    Lf,
    Cr,
    CrLf,
}

/// The part of the data that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Header,
    Rows,
    /// Behind the mark that ends the data.
    Ended,
}

/// The data of a COPY … FROM that has arrived.
pub(super) struct Records {
    options: Options,
    columns: Vec<String>,
    /// For each column, true if the text of NULL is a value.
    not_null: Vec<bool>,
    /// For each column, true if the text of NULL is NULL even in quotes.
    null: Vec<bool>,
    stage: Stage,
    data: Vec<u8>,
    /// The start of the next record in the data.
    start: usize,
    /// The end of the part of that record that has been scanned for its end.
    scanned: usize,
    line_end: Option<LineEnd>,
    /// True within quotes.
    quoted: bool,
    /// True behind an escape.
    escaped: bool,
    /// The number of the last line of the record before, or of that record if it has no lines.
    line: u64,
}

impl Records {
    /// Begins the data of a COPY into these columns.
    pub(super) fn new(options: Options, columns: &[&str]) -> Result<Records, SqlError> {
        let not_null = named(&options.force_not_null, columns, "FORCE_NOT_NULL")?;
        let null = named(&options.force_null, columns, "FORCE_NULL")?;
        let has_header = options.header || options.format == Format::Binary;
        Ok(Records {
            not_null,
            null,
            columns: columns.iter().map(ToString::to_string).collect(),
            stage: if has_header { Stage::Header } else { Stage::Rows },
            options,
            data: Vec::new(),
            start: 0,
            scanned: 0,
            line_end: None,
            quoted: false,
            escaped: false,
            line: 0,
        })
    }

    /// True if the values are in PostgreSQL's binary format.
    pub(super) fn is_binary(&self) -> bool {
        self.options.is_binary()
    }

    /// Returns the number of the line, or of the row, that was read last.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Adds data, cut anywhere.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.data.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.data.extend(data);
    }

    /// Returns the next record; `None` if it has not arrived. `is_last`: no more data follows.
    pub(super) fn next(&mut self, is_last: bool) -> Result<Option<Record<'_>>, SqlError> {
        if self.is_binary() {
            return self.next_tuple(is_last);
        }
        while self.stage != Stage::Ended
            && let Some(line) = self.next_line(is_last)?
        {
            if self.stage == Stage::Header {
                self.stage = Stage::Rows;
            } else if self.data[line.clone()] == *b"\\." {
                self.stage = Stage::Ended;
            } else {
                let values = self.values(line)?;
                return Ok(Some(Record { line: self.line, values }));
            }
        }
        if self.stage == Stage::Ended {
            (self.start, self.scanned) = (self.data.len(), self.data.len());
        }
        Ok(None)
    }

    /// Finds the next line, without its end.
    fn next_line(&mut self, is_last: bool) -> Result<Option<Range<usize>>, SqlError> {
        let start = self.start;
        while let Some(byte) = self.data.get(self.scanned).copied() {
            let next = self.data.get(self.scanned + 1).copied();
            if self.options.format == Format::Csv {
                self.follow_quotes(byte);
            } else if byte == b'\\' {
                // It escapes the next byte, also the end of a line.
                match next {
                    Some(_) => self.scanned += 2,
                    None if is_last => self.scanned += 1,
                    None => break,
                }
                continue;
            }
            let is_end = matches!(byte, b'\n' | b'\r');
            if self.quoted || !is_end {
                self.line += u64::from(byte == b'\n');
                self.scanned += 1;
                continue;
            }
            if byte == b'\r' && next.is_none() && !is_last {
                break;
            }
            let found = match (byte, next) {
                (b'\n', _) => LineEnd::Lf,
                (_, Some(b'\n')) if self.line_end != Some(LineEnd::Cr) => LineEnd::CrLf,
                _ => LineEnd::Cr,
            };
            self.line += 1;
            if *self.line_end.get_or_insert(found) != found {
                return Err(self.other_end(byte));
            }
            let end = self.scanned;
            self.scanned += if found == LineEnd::CrLf { 2 } else { 1 };
            self.start = self.scanned;
            return Ok(Some(start..end));
        }
        if self.data.len() - start > LONGEST_RECORD_BYTES {
            let message = format!("COPY line {} is longer than 64 MB", self.line + 1);
            return Err(SqlError::new(state::TOO_LARGE, message));
        }
        if !is_last || start == self.data.len() {
            return Ok(None);
        }
        self.line += 1;
        self.start = self.data.len();
        Ok(Some(start..self.start))
    }

    /// Notes whether the next byte is within quotes. An escape other than the quote matters only
    /// there, and not if it is escaped itself.
    fn follow_quotes(&mut self, byte: u8) {
        let Options { quote, escape, .. } = self.options;
        let is_escape = byte == escape && escape != quote;
        if self.quoted && is_escape {
            self.escaped = !self.escaped;
        }
        if byte == quote && !self.escaped {
            self.quoted = !self.quoted;
        }
        if !is_escape {
            self.escaped = false;
        }
    }

    /// Returns the error of a line end that is not that of the first line.
    fn other_end(&self, byte: u8) -> SqlError {
        let (name, escape) = match byte {
            b'\n' => ("newline", "\\n"),
            _ => ("carriage return", "\\r"),
        };
        match self.options.format {
            Format::Csv => bad(format!("unquoted {name} found in data"))
                .hint(format!("Use quoted CSV field to represent {name}.")),
            _ => bad(format!("literal {name} found in data"))
                .hint(format!("Use \"{escape}\" to represent {name}.")),
        }
    }

    /// Splits a line into values.
    fn values(&self, line: Range<usize>) -> Result<Vec<Value<'_>>, SqlError> {
        let (line, null) = (&self.data[line], self.options.null.as_slice());
        let values: Vec<Value<'_>> = match self.options.format {
            Format::Csv => {
                let fields = csv::fields(&self.options, line)?.into_iter().enumerate();
                let value = |(at, field): (usize, csv::Field)| {
                    let names = |columns: &[bool]| columns.get(at).copied().unwrap_or(false);
                    let is_null =
                        if field.is_quoted { names(&self.null) } else { !names(&self.not_null) };
                    (field.value != null || !is_null).then_some(Cow::Owned(field.value))
                };
                fields.map(value).collect()
            }
            _ => text::fields(line, self.options.delimiter)
                .into_iter()
                .map(|field| {
                    (field != null).then(|| match field.contains(&b'\\') {
                        true => Cow::Owned(text::unescape(field)),
                        false => Cow::Borrowed(field),
                    })
                })
                .collect(),
        };
        let is_empty = self.columns.is_empty() && line.is_empty();
        if is_empty {
            return Ok(Vec::new());
        }
        if let Some(missing) = self.columns.get(values.len()) {
            return Err(bad(format!("missing data for column \"{missing}\"")));
        }
        if values.len() > self.columns.len() {
            return Err(bad("extra data after last expected column"));
        }
        Ok(values)
    }

    fn next_tuple(&mut self, is_last: bool) -> Result<Option<Record<'_>>, SqlError> {
        if self.stage == Stage::Header
            && let Some(length) = binary::read_header(&self.data[self.start..])?
        {
            self.start += length;
            self.stage = Stage::Rows;
        }
        if self.stage == Stage::Rows && binary::is_end(&self.data[self.start..]) {
            self.start += binary::END_BYTES;
            self.stage = Stage::Ended;
        }
        self.scanned = self.start;
        let rest = &self.data[self.start..];
        if self.stage == Stage::Ended && !rest.is_empty() {
            return Err(bad("received copy data after EOF marker"));
        }
        if self.stage == Stage::Rows {
            match binary::read_tuple(rest, self.columns.len()) {
                Ok(Some((values, length))) => {
                    self.line += 1;
                    self.start += length;
                    self.scanned = self.start;
                    let values = values.into_iter().map(|it| it.map(Cow::Borrowed)).collect();
                    return Ok(Some(Record { line: self.line, values }));
                }
                Ok(None) => {}
                Err(error) => {
                    self.line += 1;
                    return Err(error);
                }
            }
        }
        if rest.len() > LONGEST_RECORD_BYTES {
            return Err(SqlError::new(state::TOO_LARGE, "a row of COPY is longer than 64 MB"));
        }
        match (is_last, self.stage) {
            (true, Stage::Header) => Err(bad("COPY file signature not recognized")),
            (true, Stage::Rows) if !rest.is_empty() => Err(bad("unexpected EOF in COPY data")),
            _ => Ok(None),
        }
    }
}
