//! A connection to one of the two servers.

use super::answer::{Answer, Decoded, Done, Outcome, Parameter};
use crate::pgbench::Target;
use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage, Statement};

/// The time limit for a response, beyond `statement_timeout`.
const LIMIT: Duration = Duration::from_secs(30);
/// How often a statement that lost against another transaction runs again.
const ATTEMPTS: usize = 5;

/// A connection to a server.
pub struct Side {
    client: Client,
}

impl Side {
    /// Connects, and applies settings.
    pub async fn connect(
        target: &Target,
        database: &str,
        settings: &[&str],
    ) -> Result<Side, String> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(target.port).user(&target.user).dbname(database);
        config.connect_timeout(LIMIT);
        let connected = config.connect(NoTls).await;
        let wrong = |error: Error| format!("port {}: {error:?}", target.port);
        let (client, connection) = connected.map_err(wrong)?;
        tokio::spawn(connection);
        for setting in settings {
            client.batch_execute(setting).await.map_err(|error| format!("{setting}: {error:?}"))?;
        }
        Ok(Side { client })
    }

    /// Runs a statement by the simple protocol, or by the extended one if parameters are given.
    /// The server describes it before if `describe` is true, or if parameters are given.
    pub async fn run(
        &self,
        sql: &str,
        parameters: Option<&[Option<String>]>,
        describe: bool,
    ) -> Answer {
        let mut attempt = 0;
        loop {
            let began = Instant::now();
            let result = timeout(LIMIT, self.attempt(sql, parameters, describe)).await;
            let outcome = match result {
                Err(_) => Outcome::Lost(format!("no response in {} s", LIMIT.as_secs())),
                Ok(Ok(done)) => Outcome::Done(done),
                Ok(Err(error)) => failure(&error),
            };
            let took = began.elapsed();
            attempt += 1;
            let conflict = matches!(&outcome, Outcome::Failed(state, _) if state == "40001");
            if !conflict || attempt == ATTEMPTS {
                return Answer { outcome, took };
            }
        }
    }

    /// Runs a statement that returns nothing of interest.
    pub async fn execute(&self, sql: &str) -> Outcome {
        match timeout(LIMIT, self.client.batch_execute(sql)).await {
            Err(_) => Outcome::Lost(format!("no response in {} s", LIMIT.as_secs())),
            Ok(Err(error)) => failure(&error),
            Ok(Ok(())) => Outcome::Done(Done::default()),
        }
    }

    /// Runs COPY FROM STDIN with its rows.
    pub async fn copy(&self, sql: &str, data: &str) -> Outcome {
        let copied = async {
            let sink = self.client.copy_in::<_, Bytes>(sql).await?;
            let mut sink = std::pin::pin!(sink);
            sink.send(Bytes::copy_from_slice(data.as_bytes())).await?;
            sink.finish().await
        };
        match timeout(LIMIT, copied).await {
            Err(_) => Outcome::Lost(format!("no response in {} s", LIMIT.as_secs())),
            Ok(Err(error)) => failure(&error),
            Ok(Ok(affected)) => Outcome::Done(Done { affected, ..Done::default() }),
        }
    }

    /// Runs COPY TO STDOUT; a row of the outcome is a line.
    pub async fn copy_out(&self, sql: &str) -> Outcome {
        let copied = async {
            let stream = self.client.copy_out(sql).await?;
            stream.try_fold(Vec::new(), async |data, more| Ok([data, more.to_vec()].concat())).await
        };
        match timeout(LIMIT, copied).await {
            Err(_) => Outcome::Lost(format!("no response in {} s", LIMIT.as_secs())),
            Ok(Err(error)) => failure(&error),
            Ok(Ok(data)) => {
                let text = String::from_utf8_lossy(&data);
                let rows = text.lines().map(|line| vec![Some(line.to_owned())]).collect();
                Outcome::Done(Done { rows, ..Done::default() })
            }
        }
    }

    async fn attempt(
        &self,
        sql: &str,
        parameters: Option<&[Option<String>]>,
        describe: bool,
    ) -> Result<Done, Error> {
        let Some(parameters) = parameters else {
            // In the simple protocol this library hides the types of columns.
            let mut done = if describe {
                described(&self.client.prepare(sql).await?)
            } else {
                Done::default()
            };
            for message in self.client.simple_query(sql).await? {
                match message {
                    SimpleQueryMessage::RowDescription(columns) if !describe => {
                        let column = |name: &str| (name.to_owned(), Type::UNKNOWN);
                        done.columns = columns.iter().map(|c| column(c.name())).collect();
                    }
                    SimpleQueryMessage::Row(row) => {
                        let cell = |at| row.get(at).map(str::to_owned);
                        done.rows.push((0..row.len()).map(cell).collect());
                    }
                    SimpleQueryMessage::CommandComplete(count) => done.affected = count,
                    _ => {}
                }
            }
            return Ok(done);
        };
        let prepared = self.client.prepare(sql).await?;
        let mut done = described(&prepared);
        let values: Vec<Parameter> = parameters.iter().cloned().map(Parameter).collect();
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let rows = self.client.query(&prepared, &values).await?;
        for row in &rows {
            let mut cells = Vec::new();
            for at in 0..row.len() {
                cells.push(row.try_get::<_, Option<Decoded>>(at)?.map(|value| value.0));
            }
            done.rows.push(cells);
        }
        done.affected = rows.len() as u64;
        Ok(done)
    }
}

fn described(prepared: &Statement) -> Done {
    let columns = prepared.columns().iter().map(|c| (c.name().to_owned(), c.type_().clone()));
    Done { columns: columns.collect(), parameters: prepared.params().to_vec(), ..Done::default() }
}

fn failure(error: &Error) -> Outcome {
    match error.as_db_error() {
        Some(error) => Outcome::Failed(error.code().code().into(), error.message().into()),
        None => Outcome::Lost(format!("{error:?}")),
    }
}
