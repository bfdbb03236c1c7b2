//! A history as text: one JSON object per transaction and line.
//!
//! ```text
//! {"client":3,"start":1200,"end":1900,"status":"ok","at":[1500,0,1],"ops":[["r","x",4],["append","y",7],["scan","a","z",[["x",4]]]]}
//! ```
//!
//! Times are nanoseconds of one clock. `at` is the commit timestamp, or the snapshot of a
//! transaction that only read; it may be missing. A key that was never written reads `null` as a
//! register and `[]` as a list. `follows`, which may be missing, names earlier transactions by
//! client and start: the transaction was given their causal tokens. `external` is true for one that
//! asked for external consistency. `snapshot` is what a transaction that wrote has read, under
//! snapshot isolation, and `snapshot_age_ns` how old it may be.

use serde::de::Error as _;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io::{BufRead, Write};

/// A commit timestamp: nanoseconds, logical counter, issuer.
pub type Stamp = (u64, u32, u32);

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It happened.
    Ok,
    /// It did not happen, and never will.
    Fail,
    /// The client received no outcome.
    Info,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// The key was never written, or was deleted.
    Nothing,
    /// A register.
    Number(i64),
    /// A list that is appended to.
    List(Vec<i64>),
}

impl Value {
    /// Returns the value after an append.
    pub fn appended(&self, element: i64) -> Value {
        let mut list = match self {
            Value::Nothing => Vec::new(),
            Value::Number(number) => vec![*number],
            Value::List(list) => list.clone(),
        };
        list.push(element);
        Value::List(list)
    }

    /// True if the values are equal; an empty list equals nothing.
    pub fn same(&self, other: &Value) -> bool {
        let empty =
            |value: &Value| matches!(value, Value::Nothing) || *value == Value::List(Vec::new());
        self == other || (empty(self) && empty(other))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nothing => f.write_str("nothing"),
            Value::Number(number) => write!(f, "{number}"),
            Value::List(list) => write!(f, "{list:?}"),
        }
    }
}

/// An operation of a transaction. A read sees the transaction's own earlier writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `["r", key, value]`
    Read(String, Value),
    /// `["w", key, value]`; `null` deletes.
    Write(String, Value),
    /// `["append", key, element]`
    Append(String, i64),
    /// `["scan", low, high, [[key, value] …]]`: everything in `low <= key < high`.
    Scan(String, String, Vec<(String, Value)>),
}

/// One attempt of a transaction, as its client observed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// The client. A client runs one transaction after the other.
    pub client: u64,
    /// When it began.
    pub start: u64,
    /// When the client received the outcome; for `info`, when it stopped waiting.
    pub end: u64,
    /// The outcome.
    pub status: Status,
    /// The commit timestamp, if the database returned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Stamp>,
    /// The operations, in order.
    pub ops: Vec<Op>,
    /// The transactions whose causal tokens it was given, each by its client and its start. A
    /// client that uses its tokens gives each transaction that of its last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<(u64, u64)>,
    /// True if it asked for external consistency: it comes before every transaction that begins
    /// after its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// The snapshot that it read, under snapshot isolation, if the database returned one. A
    /// transaction that only read has it in `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Stamp>,
    /// How much older than its beginning its snapshot may be, because it asked for that, in
    /// nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub snapshot_age_ns: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Transaction {
    /// Creates a transaction of which only its client's observation is known.
    pub fn new(client: u64, (start, end): (u64, u64), status: Status, ops: Vec<Op>) -> Self {
        Transaction {
            client,
            start,
            end,
            status,
            at: None,
            ops,
            follows: Vec::new(),
            external: false,
            snapshot: None,
            snapshot_age_ns: 0,
        }
    }

    /// True if it wrote.
    pub fn writes(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Write(..) | Op::Append(..)))
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} from {} to {}", self.client, self.start, self.end)?;
        if let Some((nanos, logical, issuer)) = self.at {
            write!(f, " at {nanos}.{logical}.{issuer}")?;
        }
        write!(f, " ({})", serde_json::to_string(&self.ops).unwrap_or_default())
    }
}

impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        match self {
            Op::Read(key, value) => {
                seq.serialize_element("r")?;
                seq.serialize_element(key)?;
                seq.serialize_element(value)?;
            }
            Op::Write(key, value) => {
                seq.serialize_element("w")?;
                seq.serialize_element(key)?;
                seq.serialize_element(value)?;
            }
            Op::Append(key, element) => {
                seq.serialize_element("append")?;
                seq.serialize_element(key)?;
                seq.serialize_element(element)?;
            }
            Op::Scan(low, high, rows) => {
                seq.serialize_element("scan")?;
                seq.serialize_element(low)?;
                seq.serialize_element(high)?;
                seq.serialize_element(rows)?;
            }
        }
        seq.end()
    }
}

/// Reads a key, which may be a string or a number, as a string.
fn key(value: &serde_json::Value) -> Result<String, String> {
    match value {
        serde_json::Value::String(text) => Ok(text.clone()),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("{other} is no key: a string or a number")),
    }
}

fn part<T: serde::de::DeserializeOwned>(
    value: &serde_json::Value,
    what: &str,
) -> Result<T, String> {
    T::deserialize(value).map_err(|_| format!("{value} is no {what}"))
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Op, D::Error> {
        let parts = Vec::<serde_json::Value>::deserialize(deserializer)?;
        let name = parts.first().and_then(|name| name.as_str()).unwrap_or_default();
        let read = || match (name, parts.len()) {
            ("r", 3) => Ok(Op::Read(key(&parts[1])?, part(&parts[2], "value")?)),
            ("w", 3) => Ok(Op::Write(key(&parts[1])?, part(&parts[2], "value")?)),
            ("append", 3) => Ok(Op::Append(key(&parts[1])?, part(&parts[2], "number")?)),
            ("scan", 4) => {
                let bound = |value| {
                    part::<String>(
                        value,
                        "bound of a scan: a string, since keys are ordered as text",
                    )
                };
                let rows: Vec<(serde_json::Value, Value)> =
                    part(&parts[3], "list of pairs of key and value")?;
                let rows: Result<_, String> =
                    rows.into_iter().map(|(name, value)| Ok((key(&name)?, value))).collect();
                Ok(Op::Scan(bound(&parts[1])?, bound(&parts[2])?, rows?))
            }
            _ => Err(format!(
                "an operation is [\"r\",k,v], [\"w\",k,v], [\"append\",k,v] or [\"scan\",low,high,[[k,v]…]], not {}",
                serde_json::Value::Array(parts.clone())
            )),
        };
        read().map_err(D::Error::custom)
    }
}

/// The reason why a history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A line is not a transaction.
    #[error("line {line}: {why}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The reason.
        why: String,
    },
    /// The file cannot be read.
    #[error("{0}")]
    Disk(#[from] std::io::Error),
}

/// The longest line that is read, in bytes: a transaction is small.
const LINE_BYTES: u64 = 16 << 20;

/// Reads a history. Empty lines are skipped.
pub fn read(from: impl BufRead) -> Result<Vec<Transaction>, FormatError> {
    Ok(read_lines(from)?.into_iter().map(|(_, transaction)| transaction).collect())
}

/// Reads a history, with the line number of each transaction.
pub fn read_lines(mut from: impl BufRead) -> Result<Vec<(usize, Transaction)>, FormatError> {
    let (mut history, mut text) = (Vec::new(), Vec::new());
    for line in 1.. {
        text.clear();
        let wrong = |why: String| FormatError::Line { line, why: shortened(why) };
        if std::io::Read::take(&mut from, LINE_BYTES).read_until(b'\n', &mut text)? == 0 {
            break;
        }
        if text.len() as u64 == LINE_BYTES {
            return Err(wrong(format!("longer than {LINE_BYTES} bytes")));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let transaction: Transaction =
            serde_json::from_slice(text.trim_ascii_end()).map_err(|error| wrong(reason(&error)))?;
        if transaction.end < transaction.start {
            return Err(wrong("the transaction ends before it starts".into()));
        }
        history.push((line, transaction));
    }
    Ok(history)
}

/// Returns the message of the JSON parser without its line number: its text has one line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what}, at column {}", error.column()),
        None => text,
    }
}

/// Shortens a reason, which may quote a long line.
fn shortened(mut why: String) -> String {
    const BYTES: usize = 400;
    if why.len() > BYTES {
        why.truncate(why.floor_char_boundary(BYTES));
        why.push('…');
    }
    why
}

/// Writes a history.
pub fn write(history: &[Transaction], mut to: impl Write) -> std::io::Result<()> {
    for transaction in history {
        serde_json::to_writer(&mut to, transaction)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}
