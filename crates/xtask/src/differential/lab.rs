//! The two servers, and the run of a case on both.

use super::answer::{Answer, Outcome};
use super::case::{Case, Statement};
use super::compare::{Difference, RowOrder, Verdict, compare, refusal};
use super::features::Feature;
use super::side::Side;
use crate::server::{self, Postgres, Server};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of the database on both servers.
const DATABASE: &str = "lab";
/// The statement that empties the database.
const DROP: &str = "DROP TABLE IF EXISTS t0, t1, t2, t3";
/// The settings of both sessions.
const SETTINGS: [&str; 2] = ["SET statement_timeout = 10000", "SET timezone = 'UTC'"];
/// The settings of PostgreSQL's session: its data need not survive a crash of the machine.
const POSTGRES_SETTINGS: [&str; 2] = ["SET synchronous_commit = off", "SET datestyle = 'ISO, MDY'"];

/// A difference that a case shows.
#[derive(Clone, Debug)]
pub struct Found {
    /// The place of the statement; `None` if it creates or fills a table.
    pub at: Option<usize>,
    /// The difference.
    pub difference: Difference,
    /// PostgreSQL's answer.
    pub postgres: Answer,
    /// Meridian's answer.
    pub meridian: Answer,
}

/// The result of a statement on both servers.
enum Step {
    /// The answers are equal.
    Equal,
    /// Meridian refuses the statement, so that PostgreSQL did not run it.
    Refused,
    /// The answers differ as they may: a change can leave different tables.
    Apart,
    /// The answers differ.
    Found(Box<Found>),
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The number of statements.
    pub statements: u64,
    /// The number of statements that succeeded on both sides.
    pub succeeded: u64,
    /// The number of statements that PostgreSQL refused or ran too long.
    pub undecided: u64,
    /// The number of soft differences.
    pub soft: u64,
    /// The refusals of Meridian, by their messages.
    pub refused: BTreeMap<String, Refusals>,
}

/// The refusals with one message.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// The number of statements.
    pub count: u64,
    /// The shortest of them.
    pub shortest: String,
}

impl Counts {
    fn refuse(&mut self, message: &str, sql: &str) {
        // Some messages repeat the expression.
        let message = message.split(['(', '"', '\'']).next().unwrap_or_default();
        let hide = |c: char| if c.is_ascii_digit() { '#' } else { c };
        let message: String = message.chars().take(REFUSAL).map(hide).collect();
        let refusals = self.refused.entry(message).or_default();
        if refusals.count == 0 || sql.len() < refusals.shortest.len() {
            refusals.shortest = sql.to_owned();
        }
        refusals.count += 1;
    }
}

/// The length at which the message of a refusal is cut.
const REFUSAL: usize = 60;

/// The protocol of Meridian's database, and the rules of the comparison.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The protocol.
    pub protocol: &'static str,
    /// True if soft differences count.
    pub strict: bool,
    /// The features that are left out, and with them parts of the comparison.
    pub skipped: Vec<Feature>,
}

impl Rules {
    /// True if a difference of this kind counts.
    fn counts(&self, difference: &Difference) -> bool {
        let feature = match difference {
            Difference::Scale => Feature::NumericScale,
            Difference::Names(..) => Feature::ColumnNames,
            Difference::Parameters(..) => Feature::ParameterTypes,
            _ => return true,
        };
        !self.skipped.contains(&feature)
    }
}

/// The two servers.
pub struct Lab {
    postgres: Side,
    meridian: Side,
    /// The processes of PostgreSQL, which end when this is dropped.
    _postgres_server: Server,
    meridian_server: Server,
    binary: PathBuf,
    folder: PathBuf,
    rules: Rules,
    starts: usize,
    /// The tables that both servers hold unchanged.
    loaded: Option<Vec<String>>,
    /// The counts so far.
    pub counts: Counts,
    /// The number of connections to Meridian that broke, also while a difference is shrunk.
    pub lost: u64,
}

impl Lab {
    /// Starts both servers in folders of their own.
    pub async fn start(binary: &Path, folder: &Path, rules: Rules) -> Result<Lab, String> {
        let postgres_server = Postgres::find()?.start(folder, 0)?;
        let admin = Side::connect(&postgres_server.target, "postgres", &[]).await?;
        let create = format!(
            "CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' \
             LC_CTYPE 'C.UTF-8'"
        );
        expect(admin.execute(&create).await, &create)?;
        let settings = [SETTINGS, POSTGRES_SETTINGS].concat();
        let postgres = Side::connect(&postgres_server.target, DATABASE, &settings).await?;
        let (meridian_server, meridian) = start_meridian(binary, folder, rules.protocol, 0).await?;
        Ok(Lab {
            postgres,
            meridian,
            _postgres_server: postgres_server,
            meridian_server,
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            rules,
            starts: 1,
            loaded: None,
            counts: Counts::default(),
            lost: 0,
        })
    }

    /// Runs a case, and returns its first difference. The error is that of a server that cannot
    /// be used any more.
    pub async fn run(&mut self, case: &Case) -> Result<Option<Found>, String> {
        let setup = case.setup();
        if self.loaded.as_ref() != Some(&setup) {
            match self.load(&setup).await? {
                Step::Equal => {}
                Step::Refused | Step::Apart => return Ok(None),
                Step::Found(found) => return Ok(Some(*found)),
            }
        }
        for (at, statement) in case.statements.iter().enumerate() {
            match self.run_statement(case, statement).await? {
                Step::Apart if statement.changes => return Ok(None),
                Step::Equal | Step::Refused | Step::Apart => {}
                Step::Found(found) => return Ok(Some(Found { at: Some(at), ..*found })),
            }
        }
        Ok(None)
    }

    /// Creates and fills the tables.
    async fn load(&mut self, setup: &[String]) -> Result<Step, String> {
        self.loaded = None;
        for sql in std::iter::once(DROP).chain(setup.iter().map(String::as_str)) {
            let step = self.compared(sql, sql, None, RowOrder::Any).await?;
            if !matches!(step, Step::Equal) {
                return Ok(step);
            }
        }
        self.loaded = Some(setup.to_vec());
        Ok(Step::Equal)
    }

    async fn run_statement(&mut self, case: &Case, statement: &Statement) -> Result<Step, String> {
        let (sql, parameters) = statement.sql();
        let order = if statement.tail.is_some() { RowOrder::Total } else { RowOrder::Any };
        let parameters = statement.extended.then_some(parameters.as_slice());
        if statement.changes {
            self.loaded = None;
        }
        let step = self.compared(&sql, &sql, parameters, order).await?;
        if !statement.changes || !matches!(step, Step::Equal) {
            return Ok(step);
        }
        for table in &case.tables {
            let contents = format!("SELECT * FROM {}", table.name);
            match self.compared(&contents, &sql, None, RowOrder::Any).await? {
                Step::Found(mut found) => {
                    if found.difference == Difference::Rows {
                        found.difference = Difference::Contents;
                    }
                    return Ok(Step::Found(found));
                }
                Step::Apart => return Ok(Step::Apart),
                Step::Equal | Step::Refused => {}
            }
        }
        Ok(Step::Equal)
    }

    /// Runs a statement on both servers, and counts the result.
    async fn compared(
        &mut self,
        sql: &str,
        source: &str,
        parameters: Option<&[Option<String>]>,
        order: RowOrder,
    ) -> Result<Step, String> {
        self.counts.statements += 1;
        // Planning twice would take most of the time: PostgreSQL alone describes simple statements.
        let meridian = self.meridian.run(sql, parameters, parameters.is_some()).await;
        if let Outcome::Lost(why) = &meridian.outcome {
            eprintln!("Meridian does not answer {sql}: {why}");
            self.lost += 1;
        }
        if let Some(message) = refusal(&meridian) {
            self.counts.refuse(message, sql);
            return Ok(Step::Refused);
        }
        let postgres = self.postgres.run(sql, parameters, true).await;
        if let Outcome::Lost(why) = &postgres.outcome {
            return Err(format!("PostgreSQL does not answer {sql}: {why}"));
        }
        let verdict = match compare(sql, source, order, &postgres, &meridian) {
            Verdict::Different(difference) if !self.rules.counts(&difference) => Verdict::Equal,
            verdict => verdict,
        };
        if matches!(postgres.outcome, Outcome::Done(_)) && verdict == Verdict::Equal {
            self.counts.succeeded += 1;
        }
        let found =
            |difference| Step::Found(Box::new(Found { at: None, difference, postgres, meridian }));
        match verdict {
            Verdict::Equal => Ok(Step::Equal),
            Verdict::Undecided => {
                self.counts.undecided += 1;
                Ok(Step::Apart)
            }
            Verdict::Soft(difference) => {
                self.counts.soft += 1;
                Ok(if self.rules.strict { found(difference) } else { Step::Apart })
            }
            Verdict::Different(difference) => {
                if difference == Difference::Broken {
                    self.reconnect().await?;
                }
                Ok(found(difference))
            }
        }
    }

    /// Connects to Meridian again, and restarts it if it does not respond.
    async fn reconnect(&mut self) -> Result<(), String> {
        self.loaded = None;
        if let Ok(side) = Side::connect(&self.meridian_server.target, DATABASE, &SETTINGS).await {
            self.meridian = side;
            return Ok(());
        }
        let started =
            start_meridian(&self.binary, &self.folder, self.rules.protocol, self.starts).await?;
        (self.meridian_server, self.meridian) = started;
        self.starts += 1;
        Ok(())
    }
}

/// Starts Meridian in a new folder, and creates the database.
async fn start_meridian(
    binary: &Path,
    folder: &Path,
    protocol: &str,
    number: usize,
) -> Result<(Server, Side), String> {
    let server = server::meridian(binary, &folder.join(format!("start{number}")), 1, &[])?;
    let admin = Side::connect(&server.target, "meridian", &[]).await?;
    let create = format!("CREATE DATABASE {DATABASE} PROTOCOL = \"{protocol}\"");
    expect(admin.execute(&create).await, &create)?;
    let side = Side::connect(&server.target, DATABASE, &SETTINGS).await?;
    Ok((server, side))
}

/// Returns an error if a statement of the tool itself failed.
fn expect(outcome: Outcome, sql: &str) -> Result<(), String> {
    match outcome {
        Outcome::Done(_) => Ok(()),
        Outcome::Failed(state, message) => Err(format!("{sql}: {state}: {message}")),
        Outcome::Lost(why) => Err(format!("{sql}: {why}")),
    }
}
