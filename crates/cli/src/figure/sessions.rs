//! Sessions that repeat one operation, each on its own connection, and their results.

use super::cluster::within;
use crate::workload::connect;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::{Client, Statement};

/// The time limit for a response.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before a lost connection is opened again.
const PAUSE: Duration = Duration::from_millis(50);

/// The statements of a session before a COMMIT, by the session's number.
pub type Before = Arc<dyn Fn(usize, &mut StdRng) -> String + Send + Sync>;

/// The timed operation of a session.
#[derive(Clone)]
pub enum Work {
    /// A single statement, for one of this many keys.
    Statement { sql: String, keys: usize },
    /// The COMMIT of a transaction, without the statements before it.
    Commit(Before),
    /// An insert or an update of a row in table `rows`, between reads that are not timed.
    Rows(Rows),
}

/// A mix of inserts, updates and reads of rows.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The setting of the session, as a statement.
    pub setting: String,
    /// The percentage of inserts.
    pub inserts: u32,
    /// The percentage of updates; the rest are reads.
    pub updates: u32,
    /// The number of bytes of a row.
    pub bytes: usize,
    /// The first of the sessions' rows; no two sessions have a row in common.
    pub first: i64,
}

impl Rows {
    /// The number of rows that a session can insert.
    pub const EACH: i64 = 1_000_000;
    const STATEMENTS: [&str; 3] = [
        "INSERT INTO rows VALUES ($1, $2)",
        "UPDATE rows SET v = $2 WHERE id = $1",
        "SELECT v FROM rows WHERE id = $1",
    ];

    /// Draws the next operation of a session that has inserted this many rows: the place of its
    /// statement, and its row, counted from the session's first.
    fn draw(&self, inserted: i64, random: &mut StdRng) -> (usize, i64) {
        let drawn = random.random_range(0..100);
        if drawn < self.inserts || inserted == 0 {
            return (0, inserted);
        }
        let which = if drawn < self.inserts + self.updates { 1 } else { 2 };
        (which, random.random_range(0..inserted))
    }
}

/// The load of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The interval at which each session begins an operation, without a pause while it is late;
    /// `None` for a closed loop.
    pub every: Option<Duration>,
    /// The time after which no operation begins.
    pub lasts: Duration,
}

/// The failures by SQLSTATE, if there is one, each with its count and the message of the first.
#[derive(Clone, Debug, Default)]
pub struct Failures(BTreeMap<String, (u64, String)>);

impl Failures {
    /// Returns the number of failures.
    pub fn count(&self) -> u64 {
        self.0.values().map(|(many, _)| many).sum()
    }

    fn note(&mut self, why: String) {
        self.note_so_many(1, why);
    }

    fn note_so_many(&mut self, many: u64, why: String) {
        let kind = why.rsplit_once("SQLSTATE").map_or(why.as_str(), |(_, code)| code).to_owned();
        self.0.entry(kind).or_insert((0, why)).0 += many;
    }

    /// Adds the failures of another measurement.
    pub fn add(&mut self, others: &Failures) {
        for (many, why) in others.0.values() {
            self.note_so_many(*many, why.clone());
        }
    }

    /// Returns a sentence that lists the failures.
    pub fn told(&self) -> String {
        if self.0.is_empty() {
            return "No operation failed.".to_owned();
        }
        let each: Vec<String> =
            self.0.values().map(|(many, why)| format!("{many} × {why}")).collect();
        format!("Operations that failed: {}.", each.join("; "))
    }
}

/// The results of a measurement.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The time of each response since the start, and the duration of its operation.
    pub answers: Vec<(Duration, Duration)>,
    /// The operations that failed.
    pub failures: Failures,
}

impl Outcome {
    /// Returns the durations of the operations, sorted, in nanoseconds; an error if there are none.
    pub fn took_ns(&self) -> Result<Vec<u64>, String> {
        let mut all: Vec<u64> = self.answers.iter().map(|(_, took)| nanos(*took)).collect();
        all.sort_unstable();
        if all.is_empty() {
            Err(format!("nothing was answered. {}", self.failures.told()))
        } else {
            Ok(all)
        }
    }

    /// Returns the operations per second over this duration.
    pub fn rate(&self, lasts: Duration) -> f64 {
        self.answers.iter().filter(|(at, _)| *at <= lasts).count() as f64 / lasts.as_secs_f64()
    }
}

/// Converts a duration of a measurement, which lasts minutes at most.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Connected sessions.
pub struct Sessions(Vec<Session>);

impl Sessions {
    /// Connects this many sessions to the nodes in turn.
    pub async fn open(urls: &[String], many: usize, work: &Work) -> Result<Sessions, String> {
        let mut sessions = Vec::new();
        for number in 0..many {
            let opened = Session::open(urls.to_vec(), number, work.clone());
            sessions.push(within(PATIENCE, "a session is opened", opened).await?);
        }
        Ok(Sessions(sessions))
    }

    /// Runs the load.
    pub async fn drive(self, load: Load) -> Outcome {
        let (many, began) = (self.0.len().max(1) as u32, Instant::now());
        // Dropping the set ends the sessions.
        let mut running = JoinSet::new();
        for (place, session) in (0_u32..).zip(self.0) {
            let first = began + load.every.unwrap_or_default() * place / many;
            running.spawn(session.drive(began, first, load));
        }
        let mut all = Outcome::default();
        while let Some(ended) = running.join_next().await {
            match ended {
                Ok(outcome) => {
                    all.answers.extend(outcome.answers);
                    all.failures.add(&outcome.failures);
                }
                Err(error) => all.failures.note(format!("a session ended: {error}")),
            }
        }
        all
    }
}

struct Session {
    /// The nodes; the session moves to the next one when its node is gone.
    urls: Vec<String>,
    number: usize,
    work: Work,
    random: StdRng,
    client: Client,
    prepared: Vec<Statement>,
    /// The number of rows that it has inserted.
    inserted: i64,
}

async fn connect(url: &str, work: &Work) -> Result<(Client, Vec<Statement>), String> {
    let explain = |error: tokio_postgres::Error| connect::explain(&error);
    let client = connect::open(url).await?;
    let statements: Vec<&str> = match work {
        Work::Statement { sql, .. } => vec![sql.as_str()],
        Work::Commit(_) => Vec::new(),
        Work::Rows(Rows { setting, .. }) => {
            client.batch_execute(setting).await.map_err(explain)?;
            Rows::STATEMENTS.to_vec()
        }
    };
    let mut prepared = Vec::new();
    for sql in statements {
        prepared.push(client.prepare(sql).await.map_err(explain)?);
    }
    Ok((client, prepared))
}

impl Session {
    async fn open(mut urls: Vec<String>, number: usize, work: Work) -> Result<Session, String> {
        let places = urls.len();
        urls.rotate_left(number % places);
        let (client, prepared) = connect(&urls[0], &work).await?;
        Ok(Session {
            urls,
            number,
            work,
            random: StdRng::seed_from_u64(number as u64),
            client,
            prepared,
            inserted: 0,
        })
    }

    async fn drive(mut self, began: Instant, mut due: Instant, load: Load) -> Outcome {
        let (mut outcome, end) = (Outcome::default(), began + load.lasts);
        loop {
            if let Some(every) = load.every {
                sleep_until(due).await;
                due += every;
            }
            // A session without any response yet waits for one, however slow the machine is.
            let end = if outcome.answers.is_empty() { end + PATIENCE } else { end };
            if Instant::now() >= end {
                return outcome;
            }
            match within(PATIENCE, "an operation", self.step()).await {
                Ok(took) => {
                    outcome.answers.extend(took.map(|took| (began.elapsed(), took)));
                }
                Err(why) => {
                    outcome.failures.note(why);
                    self.follow(end, &mut outcome.failures).await;
                }
            }
        }
    }

    /// Runs the operation once, and returns the duration of its timed part, if it has one.
    async fn step(&mut self) -> Result<Option<Duration>, String> {
        let explain = |error: tokio_postgres::Error| connect::explain(&error);
        let began = match (&self.work, self.prepared.as_slice()) {
            (Work::Statement { keys, .. }, [prepared]) => {
                let key = self.random.random_range(0..*keys) as i32;
                let began = Instant::now();
                self.client.query(prepared, &[&key]).await.map_err(explain)?;
                began
            }
            (Work::Commit(before), _) => {
                let before = format!("BEGIN; {}", before(self.number, &mut self.random));
                self.client.batch_execute(&before).await.map_err(explain)?;
                let began = Instant::now();
                self.client.batch_execute("COMMIT").await.map_err(explain)?;
                began
            }
            (Work::Rows(rows), [insert, update, read]) => {
                let (which, row) = rows.draw(self.inserted, &mut self.random);
                let id = rows.first + self.number as i64 * Rows::EACH + row;
                let text = "x".repeat(rows.bytes);
                let began = Instant::now();
                match which {
                    0 => self.client.execute(insert, &[&id, &text]).await.map_err(explain)?,
                    1 => self.client.execute(update, &[&id, &text]).await.map_err(explain)?,
                    _ => {
                        self.client.query(read, &[&id]).await.map_err(explain)?;
                        return Ok(None);
                    }
                };
                self.inserted += i64::from(which == 0);
                began
            }
            (Work::Statement { .. } | Work::Rows(_), _) => {
                return Err("a statement that was not prepared".to_owned());
            }
        };
        Ok(Some(began.elapsed()))
    }

    /// After a failure, continues on the same connection, or on the next node that runs.
    async fn follow(&mut self, end: Instant, failures: &mut Failures) {
        let rolled_back = within(PATIENCE, "ROLLBACK", self.client.batch_execute("ROLLBACK")).await;
        if rolled_back.is_ok() && !self.client.is_closed() {
            return;
        }
        while Instant::now() < end {
            self.urls.rotate_left(1);
            match within(PATIENCE, "a session follows", connect(&self.urls[0], &self.work)).await {
                Ok((client, prepared)) => {
                    (self.client, self.prepared) = (client, prepared);
                    return;
                }
                Err(why) => failures.note(why),
            }
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_kind_are_counted_together() {
        let (mut all, mut others) = (Failures::default(), Failures::default());
        assert_eq!((all.count(), all.told().as_str()), (0, "No operation failed."));
        all.note("no leader of shard 1 (SQLSTATE 57P03)".to_owned());
        others.note("no leader of shard 2 (SQLSTATE 57P03)".to_owned());
        others.note("connection closed".to_owned());
        all.add(&others);
        assert_eq!(all.count(), 3);
        let told = all.told();
        assert!(
            told.contains("2 × no leader of shard 1") && told.contains("1 × connection closed"),
            "{told}"
        );
    }

    #[test]
    fn rows_are_inserted_updated_and_read_as_often_as_asked() {
        let rows = Rows { setting: String::new(), inserts: 60, updates: 20, bytes: 1, first: 0 };
        let (mut random, mut inserted, mut drawn) = (StdRng::seed_from_u64(1), 0, [0; 3]);
        for _ in 0..10_000 {
            let (which, row) = rows.draw(inserted, &mut random);
            assert!(if which == 0 { row == inserted } else { row < inserted }, "{which} {row}");
            inserted += i64::from(which == 0);
            drawn[which] += 1;
        }
        for (many, percent) in drawn.into_iter().zip([60, 20, 20]) {
            assert!((many / 100_i32 - percent).abs() <= 1, "{drawn:?}");
        }
    }
}
