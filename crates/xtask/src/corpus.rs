//! `cargo xtask corpus FOLDER`: runs the public files of sqllogictest (`*.test`) on Meridian, and
//! compares the answers with those in the files.
//!
//! Where an answer differs, PostgreSQL is asked: it has the same tables. PostgreSQL's rows and
//! SQLSTATEs are right, whatever the file says. The rest is reported, except what [`EXCEPTIONS`]
//! lists with the reason.

use crate::differential::{Answer, Outcome, Side};
use crate::server::{self, Postgres, Server};
use clap::Args;
use md5::{Digest, Md5};
use meridian_sim::SimulatedProtocol;
use meridian_sim::protocols;
use sqllogictest::{
    Condition, DefaultColumnType, QueryExpect, Record, SortMode, StatementExpect, parse,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Statements that Meridian refuses, by a part of their text, and the reason.
const EXCEPTIONS: [(&str, &str); 3] = [
    (" view1", "rows are not changed through a view"),
    ("TRIGGER", "triggers are refused by name"),
    ("x'303132'", "bit strings are refused by name"),
];
/// The error of such statements.
const REFUSED: &str = "0A000";
/// The label of these servers in the files.
const LABEL: &str = "postgresql";
/// The database on both servers.
const DATABASE: &str = "corpus";

/// The options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// A folder with files of sqllogictest, or one file.
    folder: PathBuf,
    /// The program; built if not given.
    #[arg(long, visible_alias = "binary")]
    meridian: Option<PathBuf>,
    /// The protocol of the database.
    #[arg(long, default_value = protocols::DEFAULT.row.name, value_parser = crate::defects::protocol)]
    protocol: &'static SimulatedProtocol,
    /// Run only each n-th file.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Begin no further file after this time, in minutes.
    #[arg(long, value_parser = minutes)]
    minutes: Option<Duration>,
}

/// Reads a number of minutes, which may have a fraction.
pub fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: Option<f64> = text.parse().ok();
    let time = minutes.and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok());
    time.ok_or_else(|| format!("{text:?} is no number of minutes"))
}

/// The counts of a run.
#[derive(Default)]
struct Counts {
    records: u64,
    /// Records whose answer is PostgreSQL's and not the file's.
    as_postgres: u64,
    /// Records that an exception names.
    excepted: u64,
    /// Other answers: the number and the first one, by what Meridian says.
    differences: BTreeMap<String, (u64, String)>,
}

impl Counts {
    fn differences(&self) -> u64 {
        self.differences.values().map(|(count, _)| count).sum()
    }
}

/// Runs the files.
pub fn run(options: &Options) -> Result<(), String> {
    let mut files = Vec::new();
    collect(&options.folder, &mut files)?;
    files.sort();
    let files: Vec<PathBuf> = files.into_iter().step_by(options.every as usize).collect();
    if files.is_empty() {
        return Err(format!("{}: no *.test in it", options.folder.display()));
    }
    let binary = match &options.meridian {
        Some(binary) => binary.clone(),
        None => server::build()?,
    };
    let home = tempfile::Builder::new().prefix("meridian-corpus-").tempdir();
    let home = home.map_err(|error| error.to_string())?;
    server::readable(home.path())?;
    let servers =
        [server::meridian(&binary, home.path(), 1, &[])?, Postgres::find()?.start(home.path(), 0)?];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(run_files(options, &files, &servers))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.metadata().map_err(wrong)?.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in path.read_dir().map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "test") {
            collect(&path, files)?;
        }
    }
    Ok(())
}

async fn run_files(
    options: &Options,
    files: &[PathBuf],
    servers: &[Server; 2],
) -> Result<(), String> {
    let (mut counts, began) = (Counts::default(), Instant::now());
    let mut done = 0;
    for file in files {
        if options.minutes.is_some_and(|limit| began.elapsed() > limit) {
            break;
        }
        let name = file.strip_prefix(&options.folder).unwrap_or(file).display().to_string();
        let before = (counts.records, counts.differences());
        run_file(options, file, &name, servers, &mut counts).await?;
        done += 1;
        println!(
            "{done:>4} of {}  {name:<44} {:>6} records, {} differences",
            files.len(),
            counts.records - before.0,
            counts.differences() - before.1
        );
    }
    for (count, first) in counts.differences.values() {
        println!("\n{count} times, first at {first}");
    }
    println!(
        "\n{done} files, {} records in {:.0} s: {} are PostgreSQL's answers and not the file's, {} are excepted",
        counts.records,
        began.elapsed().as_secs_f64(),
        counts.as_postgres,
        counts.excepted
    );
    for (part, reason) in EXCEPTIONS {
        println!("  excepted: {part}: {reason}");
    }
    match counts.differences() {
        0 => Ok(()),
        many => Err(format!("{many} answers are neither the file's nor PostgreSQL's")),
    }
}

/// Runs a file in databases of its own.
async fn run_file(
    options: &Options,
    file: &Path,
    name: &str,
    servers: &[Server; 2],
    counts: &mut Counts,
) -> Result<(), String> {
    let protocol = options.protocol.row.name;
    let create = format!("CREATE DATABASE {DATABASE} PROTOCOL = {protocol}");
    let [meridian, postgres] = [
        open(&servers[0], DATABASE, &create).await?,
        open(&servers[1], DATABASE, &format!("CREATE DATABASE {DATABASE}")).await?,
    ];
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let records = parse::<DefaultColumnType>(&parseable(&text));
    let records = records.map_err(|error| format!("{name}: {error}"))?;
    let mut threshold = 0;
    for record in records {
        match record {
            Record::HashThreshold { threshold: lines, .. } => threshold = lines as usize,
            Record::Statement { conditions, sql, expected, loc, .. } if runs(&conditions) => {
                counts.records += 1;
                let (ours, theirs) = (meridian.execute(&sql).await, postgres.execute(&sql).await);
                // The files name no SQLSTATE: an error is compared with PostgreSQL's.
                let fails = matches!(expected, StatementExpect::Error(_));
                let done = |outcome: &Outcome| matches!(outcome, Outcome::Done(_));
                if !fails && done(&ours) && done(&theirs) {
                    continue;
                }
                let answer = |outcome| Answer { outcome, took: Duration::ZERO };
                let place = format!("{name}:{}", loc.line());
                settle(counts, &place, &sql, [answer(ours), answer(theirs)], true);
            }
            Record::Query { conditions, sql, expected, loc, .. } if runs(&conditions) => {
                counts.records += 1;
                let ours = meridian.run(&sql, None, false).await;
                let mut ordered = false;
                if let QueryExpect::Results { types, sort_mode, results, .. } = expected {
                    ordered = sort_mode.is_none_or(|mode| mode == SortMode::NoSort);
                    if let Outcome::Done(done) = &ours.outcome
                        && show(&done.rows, &types, sort_mode, threshold) == results
                    {
                        continue;
                    }
                }
                let theirs = postgres.run(&sql, None, false).await;
                let place = format!("{name}:{}", loc.line());
                settle(counts, &place, &sql, [ours, theirs], ordered);
            }
            Record::Halt { .. } => break,
            _ => {}
        }
    }
    Ok(())
}

/// Removes what the parser does not know: remarks behind conditions, and `halt` under a condition
/// that does not hold here.
fn parseable(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        let condition = line.starts_with("onlyif") || line.starts_with("skipif");
        let line = match line.split_once('#') {
            Some((condition_alone, _)) if condition => condition_alone.trim_end(),
            _ => line,
        };
        match kept.last().and_then(|last| last.split_once(' ')) {
            Some(("onlyif", label)) if line == "halt" && label != LABEL => drop(kept.pop()),
            Some(("skipif", label)) if line == "halt" && label == LABEL => drop(kept.pop()),
            _ => kept.push(line),
        }
    }
    kept.join("\n") + "\n"
}

/// Opens a new database of a name. An old one of the name goes.
pub async fn open(server: &Server, database: &str, create: &str) -> Result<Side, String> {
    let first = Side::connect(&server.target, "postgres", &[]).await?;
    for statement in [&format!("DROP DATABASE IF EXISTS {database}"), create] {
        match first.execute(statement).await {
            Outcome::Done(_) => {}
            Outcome::Failed(state, message) => {
                return Err(format!("{statement}: {state} {message}"));
            }
            Outcome::Lost(why) => return Err(format!("{statement}: {why}")),
        }
    }
    Side::connect(&server.target, database, &[]).await
}

/// True if the conditions of a record let it run here.
fn runs(conditions: &[Condition]) -> bool {
    conditions.iter().all(|condition| match condition {
        Condition::OnlyIf { label } => label == LABEL,
        Condition::SkipIf { label } => label != LABEL,
    })
}

/// Counts an answer that is not the file's. Rows are compared in their order if that is fixed.
fn settle(counts: &mut Counts, place: &str, sql: &str, [ours, theirs]: [Answer; 2], ordered: bool) {
    let agree = match (&ours.outcome, &theirs.outcome) {
        (Outcome::Done(ours), Outcome::Done(theirs)) => {
            let rows = |rows: &[Vec<Option<String>>]| {
                let mut rows = rows.to_vec();
                if !ordered {
                    rows.sort_unstable();
                }
                rows
            };
            rows(&ours.rows) == rows(&theirs.rows)
        }
        (Outcome::Failed(ours, _), Outcome::Failed(theirs, _)) => ours == theirs,
        _ => false,
    };
    let refused = matches!(&ours.outcome, Outcome::Failed(state, _) if state == REFUSED);
    if agree {
        counts.as_postgres += 1;
    } else if refused && EXCEPTIONS.iter().any(|(part, _)| sql.contains(part)) {
        counts.excepted += 1;
    } else {
        let kind = match &ours.outcome {
            Outcome::Done(_) => "a result".to_owned(),
            _ => ours.show().chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect(),
        };
        let (ours, theirs) = (ours.show(), theirs.show());
        let first = format!("{place}\n{sql}\nmeridian: {ours}\npostgresql: {theirs}");
        counts.differences.entry(kind).or_insert((0, first)).0 += 1;
    }
}

/// Returns a result as the files show it: each value on a line, or a hash of them.
fn show(
    rows: &[Vec<Option<String>>],
    types: &[DefaultColumnType],
    sort: Option<SortMode>,
    threshold: usize,
) -> Vec<String> {
    let row = |row: &Vec<Option<String>>| -> Vec<String> {
        let of = |at: usize| types.get(at).unwrap_or(&DefaultColumnType::Text);
        row.iter().enumerate().map(|(at, value)| value_of(value.as_deref(), of(at))).collect()
    };
    let mut rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    if sort == Some(SortMode::RowSort) {
        rows.sort_unstable();
    }
    let mut values: Vec<String> = rows.into_iter().flatten().collect();
    if sort == Some(SortMode::ValueSort) {
        values.sort_unstable();
    }
    if threshold == 0 || values.len() <= threshold {
        return values;
    }
    let mut hash = Md5::new();
    for value in &values {
        hash.update(value.as_bytes());
        hash.update(b"\n");
    }
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    vec![format!("{} values hashing to {hash}", values.len())]
}

/// Returns a value as the files show it: a number of a column of integers without its fraction.
fn value_of(value: Option<&str>, of: &DefaultColumnType) -> String {
    let Some(text) = value else { return "NULL".to_owned() };
    let number = || text.parse::<f64>().ok();
    match of {
        DefaultColumnType::Integer => match text.parse::<i64>() {
            Ok(number) => number.to_string(),
            Err(_) => match text {
                "t" => "1".to_owned(),
                "f" => "0".to_owned(),
                _ => number().map_or_else(|| "0".to_owned(), |number| format!("{}", number as i64)),
            },
        },
        DefaultColumnType::FloatingPoint => {
            number().map_or_else(|| text.to_owned(), |number| format!("{number:.3}"))
        }
        _ if text.is_empty() => "(empty)".to_owned(),
        _ => text.chars().map(|c| if (' '..='~').contains(&c) { c } else { '@' }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_shown_as_the_files_show_them() {
        let cell = |text: &str| Some(text.to_owned());
        let rows = vec![vec![cell("2"), cell("1.5"), None], vec![cell("-1"), cell("0"), cell("")]];
        let types =
            [DefaultColumnType::Integer, DefaultColumnType::FloatingPoint, DefaultColumnType::Text];
        let shown = |sort, threshold| show(&rows, &types, sort, threshold);
        assert_eq!(shown(None, 0), ["2", "1.500", "NULL", "-1", "0.000", "(empty)"]);
        let sorted = ["-1", "0.000", "(empty)", "2", "1.500", "NULL"];
        assert_eq!(shown(Some(SortMode::RowSort), 6), sorted);
        // The hash of the values of the first assertion, each with a line feed.
        assert_eq!(shown(None, 5), ["6 values hashing to 45c0b7635de66e387cd7e679afc13a34"]);
    }
}
