//! `cargo xtask regress FOLDER`: runs PostgreSQL's own regression files (`*.sql`) on Meridian and
//! on PostgreSQL, statement by statement, and counts how many answers are identical.
//!
//! Each file runs in databases of its own, in which `test_setup.sql` of the folder has run. psql's
//! commands, statements with psql's variables, and EXPLAIN, whose plans are each server's own, are
//! left out on both sides. A statement that fails on one side only changes what the next ones find,
//! so that one cause has many effects: the report lists differences by what Meridian says.

use crate::differential::{Outcome, Side};
use crate::server::{self, Postgres, Server};
use clap::Args;
use meridian::script::{Piece, Splitter, is_copy_to_stdout, uncommented};
use meridian_sim::SimulatedProtocol;
use meridian_sim::protocols;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The databases on both servers: this, and the number of the file.
const DATABASE: &str = "regression";
/// The file that makes the tables of the others.
const SETUP: &str = "test_setup.sql";
/// The error of what is not built.
const REFUSED: &str = "0A000";

/// The options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The folder of the files: `src/test/regress/sql` of PostgreSQL's sources.
    folder: PathBuf,
    /// Run these files alone, by name without `.sql`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The program; built if not given.
    #[arg(long, visible_alias = "binary")]
    meridian: Option<PathBuf>,
    /// The protocol of the database.
    #[arg(long, default_value = protocols::DEFAULT.row.name, value_parser = crate::defects::protocol)]
    protocol: &'static SimulatedProtocol,
    /// Print each difference, with both answers.
    #[arg(long)]
    all: bool,
    /// The number of causes to list.
    #[arg(long, default_value_t = 40)]
    causes: usize,
    /// Begin no further file after this time, in minutes.
    #[arg(long, value_parser = crate::corpus::minutes)]
    minutes: Option<Duration>,
}

/// The relation of two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Identical,
    /// Meridian says that it has not built it.
    Refused,
    /// Meridian fails otherwise, or with another SQLSTATE.
    Fails,
    /// Meridian succeeds, with other rows or where PostgreSQL fails.
    Differs,
}

/// The counts of a file, or of all.
#[derive(Default)]
struct Counts {
    verdicts: BTreeMap<Verdict, u64>,
    /// By what Meridian says: the number and the first one.
    causes: BTreeMap<String, (u64, String)>,
}

impl Counts {
    fn of(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    fn all(&self) -> u64 {
        self.verdicts.values().sum()
    }

    fn add(&mut self, other: Counts) {
        other.verdicts.into_iter().for_each(|(verdict, count)| {
            *self.verdicts.entry(verdict).or_default() += count;
        });
        for (cause, (count, first)) in other.causes {
            self.causes.entry(cause).or_insert((0, first)).0 += count;
        }
    }

    fn line(&self, name: &str, width: usize) -> String {
        let identical = self.of(Verdict::Identical);
        let percent = 100.0 * identical as f64 / self.all().max(1) as f64;
        format!(
            "{name:<width$} {:>7} {identical:>9} {percent:>5.1} {:>8} {:>6} {:>8}",
            self.all(),
            self.of(Verdict::Refused),
            self.of(Verdict::Fails),
            self.of(Verdict::Differs)
        )
    }
}

/// Runs the files.
pub fn run(options: &Options) -> Result<(), String> {
    let files = files(options)?;
    let binary = match &options.meridian {
        Some(binary) => binary.clone(),
        None => server::build()?,
    };
    let home = tempfile::Builder::new().prefix("meridian-regress-").tempdir();
    let home = home.map_err(|error| error.to_string())?;
    server::readable(home.path())?;
    let servers =
        [server::meridian(&binary, home.path(), 1, &[])?, Postgres::find()?.start(home.path(), 0)?];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(run_files(options, &files, &servers))
}

/// Returns the files to run, in the order of their names.
fn files(options: &Options) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", options.folder.display());
    let mut files = Vec::new();
    for entry in options.folder.read_dir().map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let is_script = path.extension().is_some_and(|extension| extension == "sql");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_wanted = options.only.is_empty() || options.only.contains(&name);
        if is_script && is_wanted && !path.ends_with(SETUP) {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(format!("{}: none of these *.sql is in it", options.folder.display())),
        false => Ok(files),
    }
}

async fn run_files(
    options: &Options,
    files: &[PathBuf],
    servers: &[Server; 2],
) -> Result<(), String> {
    let (mut counts, began) = (Counts::default(), Instant::now());
    let setup = options.folder.join(SETUP);
    let setup = if setup.exists() { script(&setup)? } else { Vec::new() };
    let width = 24;
    println!("{:<width$} statements identical  %   refused  fails  differs", "file");
    for (number, file) in files.iter().enumerate() {
        if options.minutes.is_some_and(|limit| began.elapsed() > limit) {
            println!("the time is over; {} and what follows did not run", file.display());
            break;
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let pieces = script(file)?;
        let of_file = run_file(options, &name, number, [&setup, &pieces], servers);
        let of_file = of_file.await?;
        println!("{}", of_file.line(&name, width));
        counts.add(of_file);
    }
    println!("{}\n", counts.line("all", width));
    let mut causes: Vec<(String, (u64, String))> = counts.causes.into_iter().collect();
    causes.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (cause, (count, first)) in causes.iter().take(options.causes) {
        println!("{count:>6}  {cause}\n        first at {first}");
    }
    Ok(())
}

/// Returns the statements of a file that both servers understand: without psql's commands and
/// variables.
fn script(file: &Path) -> Result<Vec<Piece>, String> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    let (mut splitter, mut pieces) = (Splitter::default(), Vec::new());
    for line in text.split_inclusive('\n') {
        let is_command = line.trim_start().starts_with('\\') && !splitter.wants_data();
        match line.split_once('\\') {
            // A command on a line of its own.
            _ if is_command && splitter.is_empty() => splitter.skip_line(),
            // A command that ends a statement as `;` does.
            Some((before, "gset\n" | "gexec\n" | "gdesc\n" | "g\n" | "gx\n"))
                if !splitter.wants_data() =>
            {
                splitter.push(&format!("{before};\n"));
            }
            _ => splitter.push(line),
        }
        while let Some(piece) = splitter.next_statement() {
            pieces.push(piece);
        }
    }
    pieces.extend(splitter.rest());
    pieces.retain(|piece| !has_variable(&piece.sql) && !is_explain(&piece.sql));
    Ok(pieces)
}

fn is_explain(sql: &str) -> bool {
    let word = uncommented(sql).get(.."explain".len());
    word.is_some_and(|word| word.eq_ignore_ascii_case("explain"))
}

/// True if psql would replace a variable in a statement: `:name`, `:'name'` or `:"name"`.
fn has_variable(sql: &str) -> bool {
    let bytes = sql.as_bytes();
    let begins = |at: usize| {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let after = bytes.get(at + 1).copied().unwrap_or(b' ');
        let is_alone = before.is_none_or(|byte| byte.is_ascii_whitespace() || byte == b'(');
        is_alone && (after.is_ascii_alphabetic() || matches!(after, b'\'' | b'"' | b'{'))
    };
    bytes.iter().enumerate().any(|(at, byte)| *byte == b':' && begins(at))
}

/// Runs a file in databases of its own.
async fn run_file(
    options: &Options,
    name: &str,
    number: usize,
    [setup, pieces]: [&[Piece]; 2],
    servers: &[Server; 2],
) -> Result<Counts, String> {
    let protocol = options.protocol.row.name;
    let database = format!("{DATABASE}{number}");
    let create = format!("CREATE DATABASE {database} PROTOCOL = {protocol}");
    let creates = [create, format!("CREATE DATABASE {database}")];
    let mut sides = [
        crate::corpus::open(&servers[0], &database, &creates[0]).await?,
        crate::corpus::open(&servers[1], &database, &creates[1]).await?,
    ];
    for piece in setup {
        answers(piece, &mut sides, &database, servers).await?;
    }
    let mut counts = Counts::default();
    for piece in pieces {
        let [ours, theirs] = answers(piece, &mut sides, &database, servers).await?;
        let verdict = verdict(&piece.sql, &ours, &theirs);
        *counts.verdicts.entry(verdict).or_default() += 1;
        if verdict == Verdict::Identical {
            continue;
        }
        let (place, sql) = (format!("{name}:{}", piece.line), one_line(&piece.sql));
        if options.all {
            println!("{place} {sql}\n  meridian: {}\n  postgresql: {}", show(&ours), show(&theirs));
        }
        let first = format!("{place} {sql}");
        counts.causes.entry(cause(&ours, &theirs)).or_insert((0, first)).0 += 1;
    }
    Ok(counts)
}

/// Runs a statement on both sides. A connection that breaks is opened again.
async fn answers(
    piece: &Piece,
    sides: &mut [Side; 2],
    database: &str,
    servers: &[Server; 2],
) -> Result<[Outcome; 2], String> {
    let mut outcomes = Vec::new();
    for (side, server) in sides.iter_mut().zip(servers) {
        let outcome = match &piece.data {
            Some(data) => side.copy(&piece.sql, data).await,
            None if is_copy_to_stdout(&piece.sql) => side.copy_out(&piece.sql).await,
            None => side.run(&piece.sql, None, false).await.outcome,
        };
        if let Outcome::Lost(_) = &outcome {
            *side = Side::connect(&server.target, database, &[]).await?;
        }
        outcomes.push(outcome);
    }
    Ok(outcomes.try_into().expect("invariant: two sides"))
}

/// Compares answers: the names of columns, and the rows, in their order if the statement has one.
fn verdict(sql: &str, ours: &Outcome, theirs: &Outcome) -> Verdict {
    match (ours, theirs) {
        (Outcome::Done(ours), Outcome::Done(theirs)) => {
            let is_ordered = sql.to_ascii_lowercase().contains("order by");
            let rows = |rows: &[Vec<Option<String>>]| {
                let mut rows = rows.to_vec();
                if !is_ordered {
                    rows.sort_unstable();
                }
                rows
            };
            match ours.columns == theirs.columns && rows(&ours.rows) == rows(&theirs.rows) {
                true => Verdict::Identical,
                false => Verdict::Differs,
            }
        }
        (Outcome::Failed(ours, _), Outcome::Failed(theirs, _)) if ours == theirs => {
            Verdict::Identical
        }
        (Outcome::Failed(state, _), _) if state == REFUSED => Verdict::Refused,
        (Outcome::Done(_), _) => Verdict::Differs,
        _ => Verdict::Fails,
    }
}

/// Returns the cause of a difference, without names and numbers.
fn cause(ours: &Outcome, theirs: &Outcome) -> String {
    match (ours, theirs) {
        (Outcome::Failed(state, message), _) => general(state, message),
        (Outcome::Lost(why), _) => why.clone(),
        (Outcome::Done(_), Outcome::Failed(state, message)) => {
            format!("no error, where PostgreSQL says {}", general(state, message))
        }
        (Outcome::Done(ours), Outcome::Done(theirs)) if ours.columns != theirs.columns => {
            "other columns".to_owned()
        }
        _ => "other rows".to_owned(),
    }
}

fn general(state: &str, message: &str) -> String {
    let mut quoted = false;
    let general: String = message
        .chars()
        .filter_map(|c| match c {
            '"' => {
                quoted = !quoted;
                quoted.then_some('…')
            }
            _ if quoted => None,
            '0'..='9' => Some('#'),
            c => Some(c),
        })
        .collect();
    format!("{state} {general}")
}

/// The characters of a statement that a line shows.
const SHOWN: usize = 160;

fn one_line(sql: &str) -> String {
    let words: Vec<&str> = uncommented(sql).split_whitespace().collect();
    words.join(" ").chars().take(SHOWN).collect()
}

fn show(outcome: &Outcome) -> String {
    let answer = crate::differential::Answer { outcome: outcome.clone(), took: Duration::ZERO };
    answer.show()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::answer::Done;

    fn done(rows: &[&str]) -> Outcome {
        let row = |text: &&str| vec![Some((*text).to_owned())];
        Outcome::Done(Done { rows: rows.iter().map(row).collect(), ..Done::default() })
    }

    fn failed(state: &str) -> Outcome {
        Outcome::Failed(state.into(), "relation \"t1\" has 3 columns".into())
    }

    #[test]
    fn answers_are_compared() {
        let (ab, ba) = (done(&["a", "b"]), done(&["b", "a"]));
        assert_eq!(verdict("SELECT x FROM t", &ab, &ba), Verdict::Identical);
        assert_eq!(verdict("SELECT x FROM t ORDER BY x", &ab, &ba), Verdict::Differs);
        assert_eq!(verdict("x", &failed("42601"), &failed("42601")), Verdict::Identical);
        assert_eq!(verdict("x", &failed("42601"), &failed("42P01")), Verdict::Fails);
        assert_eq!(verdict("x", &failed("42601"), &ab), Verdict::Fails);
        assert_eq!(verdict("x", &failed(REFUSED), &ab), Verdict::Refused);
        assert_eq!(verdict("x", &ab, &failed("42601")), Verdict::Differs);
        let general = "42P01 relation … has # columns";
        assert_eq!(cause(&failed("42P01"), &ab), general);
        let said = format!("no error, where PostgreSQL says {general}");
        assert_eq!(cause(&ab, &failed("42P01")), said);
        assert_eq!(cause(&ab, &ba), "other rows");
    }

    #[test]
    fn variables_of_psql_are_told_from_casts_and_slices() {
        for sql in ["COPY t FROM :'file'", "SELECT :name", "SELECT f(:\"name\")", ":{?x}"] {
            assert!(has_variable(sql), "{sql}");
        }
        for sql in ["SELECT a::text", "SELECT a[1:2]", "SELECT 'x:y'", "SELECT a[b:c]"] {
            assert!(!has_variable(sql), "{sql}");
        }
    }
}
