//! A session on a server, over PostgreSQL's wire protocol.

use super::backend::{Answer, Backend, Heading, State};
use super::catalog::Found;
use super::fault::Fault;
use futures::future::poll_fn;
use futures::{SinkExt, TryStreamExt};
use meridian::script::{is_copy_to_stdout, uncommented};
use std::io::Cursor;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_postgres::config::Host;
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage};

/// The size of the chunks of a COPY, in bytes.
const COPY_CHUNK_BYTES: usize = 64 << 10;

/// The notices that the server has sent.
type Notices = Arc<Mutex<Vec<Fault>>>;

/// A session on a server.
pub struct Remote {
    runtime: Handle,
    config: Config,
    client: Client,
    notices: Notices,
    state: State,
}

impl Remote {
    /// Connects to a URL.
    pub fn open(runtime: Handle, url: &str) -> Result<Remote, String> {
        let mut config: Config = url.parse().map_err(|error| {
            format!("not a connection URL: {url}: {error}; expected postgresql://USER@HOST:PORT/DATABASE")
        })?;
        if config.get_application_name().is_none() {
            config.application_name("meridian sql");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_user().is_none() {
            config.user("root");
        }
        let (client, notices) = connect(&runtime, &config)?;
        Ok(Remote { runtime, config, client, notices, state: State::Idle })
    }

    fn notices(&self) -> Vec<Fault> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tracks the transaction state from the statement, as far as the wire library lets the shell
    /// see it.
    fn follow(&mut self, sql: &str, failed: bool) {
        let mut words = uncommented(sql)
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        let first = words.next().unwrap_or("").to_uppercase();
        let second = words.next().unwrap_or("").to_uppercase();
        self.state = match (first.as_str(), second.as_str(), failed) {
            ("BEGIN", ..) | ("START", "TRANSACTION", _) if !failed && self.state == State::Idle => {
                State::InTransaction
            }
            ("COMMIT" | "END" | "ABORT", ..) => State::Idle,
            ("ROLLBACK", "TO", false) => State::InTransaction,
            ("ROLLBACK", word, _) if word != "TO" => State::Idle,
            (_, _, true) if self.state == State::InTransaction => State::Failed,
            _ => self.state,
        };
    }
}

fn connect(runtime: &Handle, config: &Config) -> Result<(Client, Notices), String> {
    let (client, mut connection) = runtime.block_on(config.connect(NoTls)).map_err(|error| {
        let fault = fault_of(&error);
        let hint = fault.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("cannot connect: {}{hint}", fault.message)
    })?;
    let notices: Notices = Arc::default();
    let seen = notices.clone();
    runtime.spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notice(notice) = message {
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(fault(&notice));
            }
        }
    });
    Ok((client, notices))
}

fn fault(error: &DbError) -> Fault {
    Fault {
        severity: error.severity().to_owned(),
        sqlstate: error.code().code().to_owned(),
        message: error.message().to_owned(),
        detail: error.detail().map(str::to_owned),
        hint: error.hint().map(str::to_owned),
        position: match error.position() {
            Some(ErrorPosition::Original(position)) => usize::try_from(*position).ok(),
            _ => None,
        },
    }
}

fn fault_of(error: &tokio_postgres::Error) -> Fault {
    use std::error::Error;
    match error.as_db_error() {
        Some(db) => fault(db),
        None => Fault::error(match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }),
    }
}

/// Sends a COPY its rows, and returns their number.
async fn copy(client: &Client, sql: &str, data: &[u8]) -> Result<u64, tokio_postgres::Error> {
    let mut sink = pin!(client.copy_in::<_, Cursor<Vec<u8>>>(sql).await?);
    for chunk in data.chunks(COPY_CHUNK_BYTES) {
        if sink.send(Cursor::new(chunk.to_vec())).await.is_err() {
            break; // The error is in the final response.
        }
    }
    sink.finish().await
}

/// Receives the data of COPY … TO STDOUT.
async fn copy_out(client: &Client, sql: &str) -> Result<Vec<u8>, tokio_postgres::Error> {
    let mut stream = pin!(client.copy_out(sql).await?);
    let mut data = Vec::new();
    while let Some(part) = stream.try_next().await? {
        data.extend_from_slice(&part);
    }
    Ok(data)
}

impl Remote {
    fn answer(&mut self, sql: &str, data: Option<&[u8]>) -> Vec<Answer> {
        if self.client.is_closed() {
            // The connection was lost earlier: the next statement reconnects.
            match connect(&self.runtime, &self.config) {
                Ok((client, notices)) => {
                    self.client = client;
                    self.notices = notices;
                    self.state = State::Idle;
                }
                Err(error) => return vec![Answer::Failed(Fault::error(error))],
            }
        }
        let client = &self.client;
        let result = self.runtime.block_on(async {
            let mut query = pin!(async {
                match data {
                    Some(data) => {
                        let count = copy(client, sql, data).await?;
                        Ok(vec![Answer::Done(tag(sql, count))])
                    }
                    None if is_copy_to_stdout(sql) => {
                        Ok(vec![Answer::Copied(copy_out(client, sql).await?)])
                    }
                    None => client.simple_query(sql).await.map(|messages| collect(sql, messages)),
                }
            });
            tokio::select! {
                result = &mut query => result,
                _ = tokio::signal::ctrl_c() => {
                    // The server fails the statement with 57014.
                    let _ = client.cancel_token().cancel_query(NoTls).await;
                    query.await
                }
            }
        });
        self.follow(sql, result.is_err());
        let mut answers: Vec<Answer> = self.notices().into_iter().map(Answer::Notice).collect();
        match result {
            Ok(answered) => answers.extend(answered),
            Err(error) => {
                let mut fault = fault_of(&error);
                if error.as_db_error().is_none() {
                    fault.hint = Some(
                        "The connection was lost: whether this statement took effect is not known. \
                                       The next statement connects again."
                            .into(),
                    );
                    self.state = State::Idle;
                }
                answers.push(Answer::Failed(fault));
            }
        }
        answers
    }
}

impl Backend for Remote {
    fn run(&mut self, sql: &str) -> Vec<Answer> {
        self.answer(sql, None)
    }

    fn copy(&mut self, sql: &str, data: &[u8]) -> Vec<Answer> {
        self.answer(sql, Some(data))
    }

    fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or("postgres")
    }

    fn state(&self) -> State {
        self.state
    }

    fn look(&mut self) {
        if self
            .runtime
            .block_on(self.client.simple_query(""))
            .is_err_and(|error| error.as_db_error().is_none())
        {
            self.state = State::Idle;
        }
    }

    fn connect(&mut self, database: &str) -> Result<(), String> {
        let mut config = self.config.clone();
        config.dbname(database);
        let (client, notices) = connect(&self.runtime, &config)?;
        (self.config, self.client, self.notices, self.state) =
            (config, client, notices, State::Idle);
        Ok(())
    }

    fn describe(&self) -> String {
        let ports = self.config.get_ports();
        let address = |(at, host): (usize, &Host)| {
            let port = ports.get(at).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(host) => format!("{host}, port {port}"),
                Host::Unix(path) => format!("{}, port {port}", path.display()),
            }
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().enumerate().map(address).collect();
        let of_several = if hosts.len() > 1 { "the first that answers of " } else { "" };
        format!(
            "Connected to database \"{}\" as user \"{}\" on {of_several}{}.",
            self.database(),
            self.config.get_user().unwrap_or("root"),
            hosts.join("; "),
        )
    }
}

fn collect(sql: &str, messages: Vec<SimpleQueryMessage>) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut open: Option<Found> = None;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                let headings = columns
                    .iter()
                    .map(|column| Heading { name: column.name().to_owned(), number: None })
                    .collect();
                open = Some((headings, Vec::new()));
            }
            SimpleQueryMessage::Row(row) => {
                if let Some((_, rows)) = &mut open {
                    rows.push((0..row.len()).map(|n| row.get(n).map(str::to_owned)).collect());
                }
            }
            SimpleQueryMessage::CommandComplete(count) => {
                let tag = tag(sql, count);
                answers.push(match open.take() {
                    Some((headings, rows)) => Answer::Rows { headings, rows, tag },
                    None => Answer::Done(tag),
                });
            }
            _ => {}
        }
    }
    answers
}

/// Reconstructs the command tag, of which the wire library keeps only the number.
fn tag(sql: &str, count: u64) -> String {
    let words: Vec<String> = uncommented(sql)
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .take(3)
        .map(str::to_uppercase)
        .collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["INSERT", ..] => format!("INSERT 0 {count}"),
        [verb @ ("UPDATE" | "DELETE" | "SELECT" | "COPY" | "MERGE" | "FETCH"), ..] => {
            format!("{verb} {count}")
        }
        ["WITH" | "VALUES" | "TABLE", ..] => format!("SELECT {count}"),
        ["CREATE", "UNIQUE", what] | ["CREATE" | "DROP" | "ALTER", what, ..] => {
            format!("{} {what}", words[0])
        }
        ["TRUNCATE", ..] => "TRUNCATE TABLE".into(),
        ["START", "TRANSACTION", ..] => "START TRANSACTION".into(),
        [verb, ..] => (*verb).to_owned(),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_postgresql() {
        for (sql, count, expected) in [
            ("insert into t values (1)", 1, "INSERT 0 1"),
            ("UPDATE t SET a = 1", 3, "UPDATE 3"),
            ("create table t (a int)", 0, "CREATE TABLE"),
            ("create unique index i on t (a)", 0, "CREATE INDEX"),
            ("begin", 0, "BEGIN"),
            ("with x as (select 1) select * from x", 1, "SELECT 1"),
            ("-- in\n/* more */ copy t from stdin", 2, "COPY 2"),
            ("", 0, ""),
            ("-- nothing", 0, ""),
        ] {
            assert_eq!(tag(sql, count), expected, "{sql}");
        }
    }
}
