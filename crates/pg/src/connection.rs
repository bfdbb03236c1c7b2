//! A client's connection from its first byte to its last: the startup, then the session's loop.

use crate::counters::count;
use crate::frontend::{self, Opening};
use crate::link::{End, Link};
use crate::server::{ServerState, secret, stops};
use crate::wire::Wire;
use futures::FutureExt;
use meridian_sql::{Engine, Session};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Returns the time since the first connection of the process.
pub(crate) fn since_start() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// The users that may connect without a password, from loopback.
const USERS: [&str; 2] = ["root", "postgres"];

/// Serves one client until either side ends the connection. Never panics: a panic of the session is
/// reported as XX000.
pub(crate) async fn run(stream: TcpStream, state: Arc<ServerState>) {
    state.counters.connections_open.fetch_add(1, Relaxed);
    let mut link = Link::new(stream, state.counters.clone());
    let end = match AssertUnwindSafe(converse(&mut link, &state)).catch_unwind().await {
        Ok(end) => end,
        Err(_) => {
            count(&state.counters.panics_total);
            link.answers.drop_unfinished();
            match state.databases.ended() {
                None => End::Fatal {
                    code: "XX000",
                    message: "the server failed while it ran this statement".into(),
                    detail: Some(
                        "Only this session is affected; its transaction is rolled back.".into(),
                    ),
                    hint: Some("This is a bug in Meridian. See the server's log.".into()),
                },
                Some(why) => End::Fatal {
                    code: "57P02",
                    message: "the node has ended: its own code failed".into(),
                    detail: Some(format!(
                        "{why} Whether a commit under way has happened is unknown."
                    )),
                    hint: Some("This is a bug in Meridian. Start the node again.".into()),
                },
            }
        }
    };
    if matches!(end, End::Fatal { code: "08P01", .. }) {
        count(&state.counters.protocol_errors);
    }
    link.end(end).await;
    state.counters.connections_open.fetch_sub(1, Relaxed);
}

async fn converse(link: &mut Link, state: &Arc<ServerState>) -> End {
    let opened = tokio::time::timeout(state.options.opening_timeout, open(link, state)).await;
    let refused = match opened {
        Ok(Ok(Some(startup))) => match startup.enter(link, state).await {
            Ok(mut wire) => {
                let end = wire.run(link).await;
                wire.end().await;
                return end;
            }
            Err(end) => end,
        },
        Ok(Ok(None)) => return End::Closed,
        Ok(Err(end)) => end,
        Err(_) => End::fatal("08P01", "the client did not send its startup packet in time"),
    };
    count(&state.counters.connections_refused);
    refused
}

/// The contents of a startup packet.
struct Startup {
    user: String,
    database: Option<String>,
    settings: Vec<(String, String)>,
    /// Protocol options that this server does not know; `newer` is true if a newer minor version
    /// was requested.
    unknown_options: Vec<String>,
    newer: bool,
}

/// Reads until the startup packet. Returns `None` for a cancel request, which gets no response.
async fn open(link: &mut Link, state: &ServerState) -> Result<Option<Startup>, End> {
    // A client may request each kind of encryption once.
    let mut refusals_left = 2;
    let mut stopping = state.stopping.clone();
    loop {
        match frontend::opening(&mut link.input)? {
            None => {
                tokio::select! {
                    biased;
                    received = link.receive() => received?,
                    () = stops(&mut stopping) => return Err(shutting_down()),
                }
            }
            Some(Opening::Encryption) if refusals_left > 0 => {
                refusals_left -= 1;
                link.answers.no_encryption();
                link.flush().await?;
            }
            Some(Opening::Encryption) => {
                return Err(End::fatal("08P01", "encryption was refused already"));
            }
            Some(Opening::Cancel { process, secret }) => {
                if state.registry.cancel(process, secret) {
                    count(&state.counters.cancels_total);
                }
                return Ok(None);
            }
            Some(Opening::Startup { minor, parameters }) => {
                return startup(minor, parameters).map(Some);
            }
        }
    }
}

fn startup(minor: u16, parameters: Vec<(String, String)>) -> Result<Startup, End> {
    let mut startup = Startup {
        user: String::new(),
        database: None,
        settings: Vec::new(),
        unknown_options: Vec::new(),
        newer: minor > 0,
    };
    for (name, value) in parameters {
        match name.as_str() {
            "user" => startup.user = value,
            "database" if value.is_empty() => {}
            "database" => startup.database = Some(value),
            "replication" if matches!(value.as_str(), "false" | "off" | "no" | "0") => {}
            "replication" => {
                return Err(End::fatal("0A000", "the replication protocol is not supported"));
            }
            "options" => startup.settings.extend(command_line(&value)?),
            name if name.starts_with("_pq_.") => startup.unknown_options.push(name.to_owned()),
            _ => startup.settings.push((name, value)),
        }
    }
    if startup.user.is_empty() {
        return Err(End::fatal("28000", "no PostgreSQL user name specified in startup packet"));
    }
    Ok(startup)
}

/// Parses the settings in `-c name=value --name=value`.
fn command_line(options: &str) -> Result<Vec<(String, String)>, End> {
    let mut settings = Vec::new();
    let mut words = options.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(setting), _) => setting,
            (None, Some("")) => words.next().unwrap_or_default(),
            (None, Some(setting)) => setting,
            (None, None) => "",
        };
        match setting.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                settings.push((name.replace('-', "_"), value.to_owned()));
            }
            _ => {
                return Err(End::fatal(
                    "42601",
                    format!("invalid command-line argument for server process: {word}"),
                ));
            }
        }
    }
    Ok(settings)
}

impl Startup {
    /// Checks the user and the database, and opens the session.
    async fn enter(self, link: &mut Link, state: &Arc<ServerState>) -> Result<Wire, End> {
        if *state.stopping.borrow() {
            return Err(shutting_down());
        }
        if !USERS.contains(&self.user.as_str()) {
            return Err(End::Fatal {
                code: "28000",
                message: format!("role \"{}\" does not exist", self.user),
                detail: None,
                hint: Some(format!(
                    "There are the users {}; other users come with authentication.",
                    USERS.join(" and ")
                )),
            });
        }
        let engine = self.engine(state).await?;
        let Ok(place) = state.places.clone().try_acquire_owned() else {
            return Err(End::Fatal {
                code: "53300",
                message: "sorry, too many clients already".into(),
                detail: None,
                hint: Some(format!(
                    "At most {} sessions may be open.",
                    state.options.connections_limit
                )),
            });
        };
        let mut session = Session::new(engine, &self.user);
        session.set_clock(since_start);
        if self.newer || !self.unknown_options.is_empty() {
            let options: Vec<&str> = self.unknown_options.iter().map(String::as_str).collect();
            link.answers.negotiate_version(&options);
        }
        link.answers.authentication_ok();
        let mut refused = Vec::new();
        for (name, value) in &self.settings {
            let Err(error) = session.set(name, value) else { continue };
            // A setting of our own is sent on purpose, and the session would break its promise; an
            // unknown zone would show other times. Of PostgreSQL's, drivers send some that have no
            // effect here.
            let lower = name.to_ascii_lowercase();
            if lower.starts_with("meridian.") || lower == "timezone" {
                return Err(End::Fatal {
                    code: error.sqlstate,
                    message: error.message,
                    detail: error.detail,
                    hint: error.hint,
                });
            }
            refused.push(error);
        }
        let entry = state.registry.enter(secret(), link.presence());
        session.introduce(entry.process, link.peer(), now_us());
        session.set_backend(entry.running.clone());
        session.receive_notifications();
        let mut wire = Wire::new(session, state.clone(), entry, place);
        wire.greet(link, &refused);
        Ok(wire)
    }

    async fn engine(&self, state: &ServerState) -> Result<Arc<Engine>, End> {
        // Without a database name, the client's database is the one with the user's name; most
        // users have none, so `postgres` is next.
        let asked = self.database.as_deref().unwrap_or(&self.user);
        let names = [Some(asked), self.database.is_none().then_some("postgres")];
        let mut engine = None;
        for name in names.into_iter().flatten() {
            if engine.is_some() {
                break;
            }
            engine = state.databases.engine(name).await.map_err(|why| End::Fatal {
                code: "57P03",
                message: format!("cannot determine now whether database \"{name}\" exists"),
                detail: Some(why),
                hint: Some("Try again when a majority of the nodes is up.".into()),
            })?;
        }
        engine.ok_or_else(|| {
            let names = state.databases.names();
            let hint = match closest(asked, &names) {
                Some(name) => {
                    format!("Did you mean \"{name}\"? The databases are {}.", names.join(", "))
                }
                None => format!("The databases are {}.", names.join(", ")),
            };
            End::Fatal {
                code: "3D000",
                message: format!("database \"{asked}\" does not exist"),
                detail: None,
                hint: Some(hint),
            }
        })
    }
}

/// Returns the wall clock, in microseconds since 2000-01-01 UTC.
fn now_us() -> i64 {
    const TO_2000_US: i64 = 946_684_800_000_000;
    let since_1970 =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX).saturating_sub(TO_2000_US)
}

pub(crate) fn shutting_down() -> End {
    End::fatal("57P01", "terminating connection due to administrator command")
}

/// Returns the most similar name, if it differs in at most a third of its letters.
fn closest<'a>(asked: &str, names: &'a [String]) -> Option<&'a str> {
    let asked: Vec<char> = asked.to_lowercase().chars().take(64).collect();
    let distance = |name: &str| {
        let name: Vec<char> = name.to_lowercase().chars().collect();
        let mut row: Vec<usize> = (0..=name.len()).collect();
        for (i, a) in asked.iter().enumerate() {
            let mut diagonal = i;
            row[0] = i + 1;
            for (j, b) in name.iter().enumerate() {
                let change = diagonal + usize::from(a != b);
                diagonal = row[j + 1];
                row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[name.len()]
    };
    let (distance, name) = names.iter().map(|name| (distance(name), name)).min()?;
    (distance * 3 <= name.chars().count().max(3)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_close_or_none() {
        let names = ["meridian".to_owned(), "postgres".to_owned(), "tpc".to_owned()];
        assert_eq!(closest("meridan", &names), Some("meridian"));
        assert_eq!(closest("Postgre", &names), Some("postgres"));
        assert_eq!(closest("tpcc", &names), Some("tpc"));
        assert_eq!(closest("orders", &names), None);
        assert_eq!(closest("x", &[]), None);
    }

    #[test]
    fn the_command_line_names_settings() {
        let read = |text| command_line(text).ok();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            read("-c statement_timeout=5s --lock-timeout=1 -cx=y"),
            Some(vec![pair("statement_timeout", "5s"), pair("lock_timeout", "1"), pair("x", "y")])
        );
        assert_eq!(read(""), Some(vec![]));
        for bad in ["-c", "-c x", "-B 1", "--", "-c =1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
