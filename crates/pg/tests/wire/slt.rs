//! Runs files of sqllogictest, each on a fresh database, by the simple protocol.

use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_postgres::{Client, SimpleQueryMessage};

/// A connection of the runner.
struct Connection(Client);

/// An error, displayed with its SQLSTATE and message first.
#[derive(Debug)]
struct Failed(tokio_postgres::Error);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_db_error() {
            Some(error) => write!(f, "{} {}", error.code().code(), error.message()),
            None => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Failed {}

#[async_trait]
impl AsyncDB for Connection {
    type Error = Failed;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failed> {
        let messages = self.0.simple_query(sql).await.map_err(Failed)?;
        let mut columns = None;
        let mut rows = Vec::new();
        let mut count = 0;
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(described) => columns = Some(described.len()),
                SimpleQueryMessage::Row(row) => {
                    let value = |index| match row.get(index) {
                        None => "NULL".to_owned(),
                        Some("") => "(empty)".to_owned(),
                        Some(text) => text.to_owned(),
                    };
                    rows.push((0..row.len()).map(value).collect());
                }
                SimpleQueryMessage::CommandComplete(n) => count = n,
                _ => {}
            }
        }
        Ok(match columns {
            Some(columns) => DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows },
            None => DBOutput::StatementComplete(count),
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "meridian"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(error: &Failed) -> Option<String> {
        error.0.code().map(|code| code.code().to_owned())
    }
}

/// Returns the files of a folder of `tests`.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    files
}

/// Runs the files of a folder, each against a server of its own. The files name what is different
/// with a protocol (`onlyif NAME`, `skipif NAME`).
pub async fn run<F: Future<Output = crate::common::Running>>(
    folder: &str,
    protocol: &str,
    start: impl Fn() -> F,
) {
    let files = files(folder);
    assert!(!files.is_empty(), "there are files to run");
    let mut failures = Vec::new();
    for file in files {
        let server = start().await;
        let mut runner = Runner::new(|| async { Ok(Connection(server.client().await)) });
        runner.add_label(protocol);
        if let Err(error) = runner.run_file_async(&file).await {
            failures.push(format!("{error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
