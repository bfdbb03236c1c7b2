//! `meridian check`: judges of histories.

use clap::{Args, ValueEnum};
use meridian_history::cycles::Model;
use meridian_history::search::Limit;
use meridian_history::{Transaction, Verdict, judge, read_lines};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

/// The consistency models that a history can be judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Claim {
    /// An order of the transactions that respects real time; also called linearizable.
    #[value(alias = "linearizable")]
    StrictSerializable,
    /// An order of the transactions in which each comes after those whose causal tokens it was
    /// given.
    Causal,
    /// An order of the transactions.
    Serializable,
    /// Every transaction reads a snapshot, and of two concurrent ones that write the same key one
    /// fails.
    SnapshotIsolation,
    /// No transaction reads uncommitted writes, or a part of a transaction's writes.
    ReadCommitted,
}

impl Claim {
    fn model(self) -> Model {
        match self {
            Claim::StrictSerializable => Model::StrictSerializable,
            Claim::Causal => Model::Causal,
            Claim::Serializable => Model::Serializable,
            Claim::SnapshotIsolation => Model::SnapshotIsolation,
            Claim::ReadCommitted => Model::ReadCommitted,
        }
    }
}

/// The exit status of `meridian check` without a verdict: the judges cannot decide, or the file is
/// no history.
const NO_VERDICT: u8 = 2;

/// `meridian check`: the exit status is 0 if the history is right, 1 if it is wrong, 2 if there is
/// no verdict.
#[derive(Debug, Args)]
pub struct Check {
    /// The history: one JSON object per line for each transaction.
    file: PathBuf,
    /// The consistency model.
    #[arg(long, value_enum, default_value = "strict-serializable")]
    model: Claim,
    /// The number of failed tries of a transaction after which the search for an order gives up.
    #[arg(long, default_value_t = Limit::default().0)]
    limit: usize,
}

impl Check {
    /// Reads and judges the history.
    pub fn run(&self) -> ExitCode {
        let path = self.file.display();
        let read = File::open(&self.file)
            .map_err(Into::into)
            .and_then(|file| read_lines(BufReader::new(file)));
        let (lines, history): (Vec<usize>, Vec<Transaction>) = match read {
            Ok(history) => history.into_iter().unzip(),
            Err(error) => {
                eprintln!("meridian: {path}: {error}");
                return ExitCode::from(NO_VERDICT);
            }
        };
        let claim = self
            .model
            .to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default();
        match judge(&history, self.model.model(), Limit(self.limit)) {
            Verdict::Right(proof) => {
                println!("{path}: {} transactions, {claim}: {proof}", history.len());
                ExitCode::SUCCESS
            }
            Verdict::Wrong { why, transactions } => {
                println!("{path}: not {claim}\n{why}");
                let line = |wrong: &Transaction| {
                    lines[history.iter().position(|transaction| transaction == wrong)?..].first()
                };
                let lines: Vec<String> =
                    transactions.iter().filter_map(line).map(usize::to_string).collect();
                if !lines.is_empty() {
                    println!("{path}: line {}", lines.join(", "));
                }
                ExitCode::FAILURE
            }
            Verdict::Undecided(why) => {
                println!(
                    "{path}: {} transactions, undecided whether {claim}\n{why}",
                    history.len()
                );
                ExitCode::from(NO_VERDICT)
            }
        }
    }
}
