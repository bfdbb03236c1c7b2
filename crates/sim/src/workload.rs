//! The clients' workloads.
//!
//! Keys that begin with `l` are lists, which are appended to by reading and writing; all others are
//! registers. Every element is written once, so that it identifies its writer. Where numbers have a
//! meaning (balances, counters), a transaction also writes a key of its own, its *mark*.

use crate::client::MARK;
use meridian_clock::Timestamp;
use meridian_history::{Transaction, invariants};
use meridian_systems::Protocol;
use meridian_txn::{Lock, Mode, ReadAt};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::str::FromStr;

/// The workload of a run. (All but the first are Jepsen's.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Reads and writes lists and registers in one transaction: reads, appends, writes, deletes,
    /// scans both ways, savepoints, pauses, reads of the past.
    Mixed,
    /// Reads lists, and appends to them.
    ListAppend,
    /// Reads and writes registers.
    RwRegister,
    /// Moves money between accounts; readers sum all of it.
    Bank,
    /// Adds elements, each once; readers read all of them.
    Set,
    /// Increments a number; readers read it.
    Counter,
    /// Writes single keys; readers compare several.
    LongFork,
    /// Writes the greatest number plus one.
    Monotonic,
    /// Writes one key after the other; readers check that no earlier one is missing.
    CausalReverse,
    /// Inserts by two clients where only one may: each reads the range first.
    Predicate,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 10] = [
        Workload::Mixed,
        Workload::ListAppend,
        Workload::RwRegister,
        Workload::Bank,
        Workload::Set,
        Workload::Counter,
        Workload::LongFork,
        Workload::Monotonic,
        Workload::CausalReverse,
        Workload::Predicate,
    ];

    /// The workloads that apply without transactions: every value that they write is unique, and
    /// none depends on a read.
    pub const OF_REGISTERS: [Workload; 6] = [
        Workload::Mixed,
        Workload::ListAppend,
        Workload::RwRegister,
        Workload::Set,
        Workload::LongFork,
        Workload::CausalReverse,
    ];

    /// Returns the workloads that apply to a protocol.
    pub fn of(protocol: &Protocol) -> &'static [Workload] {
        if protocol.has_transactions() { &Workload::ALL } else { &Workload::OF_REGISTERS }
    }

    /// Returns the name, as in `--workload`.
    pub const fn name(self) -> &'static str {
        match self {
            Workload::Mixed => "mixed",
            Workload::ListAppend => "list-append",
            Workload::RwRegister => "rw-register",
            Workload::Bank => "bank",
            Workload::Set => "set",
            Workload::Counter => "counter",
            Workload::LongFork => "long-fork",
            Workload::Monotonic => "monotonic",
            Workload::CausalReverse => "causal-reverse",
            Workload::Predicate => "predicate",
        }
    }

    /// Returns a key in the middle of the keys of the workload, for this number of writing
    /// transactions, so that both sides are in use.
    pub(crate) fn middle(self, keys: u32, transactions: usize) -> String {
        let (half, later) = (keys / 2, transactions / 2);
        match self {
            Workload::Mixed => "m".to_owned(),
            Workload::ListAppend => format!("l{half}"),
            Workload::RwRegister => format!("r{half}"),
            Workload::Bank => format!("a{}", ACCOUNTS / 2),
            Workload::Counter => MARK.to_string(),
            Workload::Set => format!("s{later:06}"),
            Workload::LongFork => format!("f{later:06}"),
            Workload::Monotonic => format!("m{later:06}"),
            Workload::CausalReverse => format!("c{later:06}"),
            Workload::Predicate => format!("p{:06}", later / 4),
        }
    }

    /// Checks the invariants of the workload itself; fewer if the order need not respect real time.
    pub(crate) fn judge(
        self,
        history: &[Transaction],
        in_real_time: bool,
    ) -> Result<(), invariants::Violation> {
        match self {
            Workload::Set | Workload::Counter | Workload::Monotonic | Workload::CausalReverse
                if !in_real_time =>
            {
                Ok(())
            }
            Workload::Mixed | Workload::ListAppend | Workload::RwRegister | Workload::Predicate => {
                Ok(())
            }
            Workload::Bank => invariants::bank(history, ACCOUNTS as usize, OPENING),
            Workload::Set => invariants::set(history),
            Workload::Counter => invariants::counter(history, COUNTER),
            Workload::LongFork => invariants::long_fork(history),
            Workload::Monotonic => invariants::monotonic(history),
            Workload::CausalReverse => invariants::causal_reverse(history),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Workload::ALL.map(Workload::name).join(", ");
        let found = Workload::ALL.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| format!("no workload is called {text}; there are {}", known()))
    }
}

/// A step of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Read(String, Lock),
    Append(String, i64),
    Write(String, Option<i64>),
    /// The low end, the high end, and true to scan backwards.
    Scan(String, String, bool),
    /// Writes a key, and rolls back to a savepoint before it.
    Regret(String),
    Think(u64),
    /// Moves money from one account to another, if there is enough.
    Move(String, String, i64),
    /// Increments a number, by reading and writing it.
    Increment(String),
    /// Writes the greatest value of a range plus one to a new key of it.
    Next(String, String, String),
    /// Writes a key if a range is empty.
    InsertUnless(String, String, String, i64),
}

/// The scope of reads that a transaction declares (Spanner §4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Open,
    Said,
    /// Declared; if it is in several shards, they negotiate the timestamp.
    Negotiated,
}

/// The plan of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub mode: Mode,
    pub steps: Vec<Step>,
    /// A unique number, written to a key of its own.
    pub mark: Option<i64>,
    /// The number of rows that a scan requests at once.
    pub rows: usize,
    /// The declared scope of reads.
    pub scope: Scope,
    /// True if the plan is one statement without a transaction block.
    pub alone: bool,
    /// A schema change before the transaction, in SQL.
    pub schema: Option<&'static str>,
    /// A pause between planning and running a statement, in SQL, in nanoseconds.
    pub dawdles_ns: Option<u64>,
}

/// Schema changes that run beside the workload. Each does nothing if its result exists already.
const SCHEMA: &[&str] = &[
    "CREATE INDEX IF NOT EXISTS lab_by_v ON lab (v)",
    "DROP INDEX IF EXISTS lab_by_v",
    "ALTER TABLE lab ADD COLUMN IF NOT EXISTS extra int",
    "ALTER TABLE lab DROP COLUMN IF EXISTS extra",
    // Rows without a default of their own are rewritten at another place: a transaction that
    // continues at the old place loses its writes. A constant would rewrite none.
    "ALTER TABLE lab ADD COLUMN IF NOT EXISTS a int DEFAULT 1 + (0 * random())::int",
    "ALTER TABLE lab ADD COLUMN IF NOT EXISTS b int DEFAULT 1 + (0 * random())::int",
    "ALTER TABLE lab ADD COLUMN IF NOT EXISTS c int DEFAULT 1 + (0 * random())::int",
    "CREATE TABLE IF NOT EXISTS beside (id int PRIMARY KEY)",
    "DROP TABLE IF EXISTS beside",
];

impl Plan {
    /// Returns the plan with reads of the present in place of reads of the past.
    pub fn of_the_present(self) -> Plan {
        match self.mode {
            Mode::ReadOnly(_) => Plan { mode: Mode::ReadOnly(ReadAt::Now), ..self },
            Mode::ReadWrite => self,
        }
    }

    /// Returns the plan for a client that speaks SQL: every write has a mark, since the client
    /// receives no timestamps, and some single statements have no transaction block.
    pub fn in_sql(mut self, drawing: &mut Drawing<'_>) -> Plan {
        self = self.of_the_present();
        let one = matches!(
            self.steps[..],
            [Step::Read(..) | Step::Append(..) | Step::Write(..) | Step::Scan(..)]
        );
        self.alone = one && self.mark.is_none() && drawing.rng.random_bool(0.5);
        if self.mode == Mode::ReadWrite && !self.alone && self.mark.is_none() {
            self.mark = Some(drawing.number());
        }
        if self.mode == Mode::ReadWrite && drawing.rng.random_bool(0.03) {
            self.schema = Some(SCHEMA[drawing.rng.random_range(0..SCHEMA.len())]);
        }
        if drawing.rng.random_bool(0.2) {
            self.dawdles_ns = Some(drawing.rng.random_range(0..500_000_000));
        }
        self
    }
}

/// The state from which plans are drawn.
pub(crate) struct Drawing<'a> {
    pub rng: &'a mut ChaCha8Rng,
    /// True if there are no long pauses, since all clients must make progress.
    pub hurries: bool,
    /// True if the client mostly reads, and so makes progress while writes wait for a majority.
    pub reader: bool,
    /// The number of keys: few, so that transactions conflict.
    pub keys: u32,
    /// The highest element drawn so far.
    pub next: &'a mut i64,
    /// Recent commit timestamps.
    pub past: &'a [Timestamp],
    /// A time that has passed by the node's clock: mostly above every commit.
    pub present: Timestamp,
}

const ACCOUNTS: u32 = 5;
/// The initial balance of each account.
pub(crate) const OPENING: i64 = 100;
const COUNTER: &str = "n";

fn range(prefix: char) -> (String, String) {
    (prefix.to_string(), char::from(prefix as u8 + 1).to_string())
}

impl Drawing<'_> {
    fn number(&mut self) -> i64 {
        *self.next += 1;
        *self.next
    }

    fn lock(&mut self) -> Lock {
        if self.rng.random_bool(0.3) { Lock::Exclusive } else { Lock::Shared }
    }

    fn key(&mut self, prefix: char) -> String {
        format!("{prefix}{}", self.rng.random_range(0..self.keys))
    }

    /// Draws a key that was written recently, or will be soon.
    fn late(&mut self, prefix: char) -> String {
        format!("{prefix}{:06}", (*self.next + 2 - self.rng.random_range(0..8)).max(0))
    }

    fn scan(&mut self, prefix: char) -> Step {
        let (low, high) = range(prefix);
        Step::Scan(low, high, self.rng.random_bool(0.3))
    }

    /// Draws a transaction.
    pub fn plan(&mut self, workload: Workload) -> Plan {
        let plan = if workload == Workload::Mixed { self.mixed() } else { self.of(workload) };
        let scope = match self.rng.random_range(0..4) {
            0 => Scope::Said,
            1 => Scope::Negotiated,
            _ => Scope::Open,
        };
        Plan { scope, ..plan }
    }

    fn of(&mut self, workload: Workload) -> Plan {
        let reads = self.reader || self.rng.random_bool(0.2);
        let mode = match self.rng.random_range(0..10) {
            0 if reads && !self.past.is_empty() => self.of_the_past(),
            1 if reads => Mode::ReadOnly(ReadAt::Exact(self.present)),
            2..8 if reads => Mode::ReadOnly(ReadAt::Now),
            _ => Mode::ReadWrite, // Under locks, even if it only reads.
        };
        let mut steps = if reads { self.reading(workload) } else { self.writing(workload) };
        if !self.hurries && self.rng.random_bool(0.02) {
            steps.push(Step::Think(3_000_000_000));
        } else if self.rng.random_bool(0.2) {
            let at = self.rng.random_range(0..=steps.len());
            steps.insert(at, Step::Think(self.rng.random_range(0..30_000_000)));
        }
        let counts = matches!(workload, Workload::Bank | Workload::Counter | Workload::Monotonic);
        let mark = (counts && !reads).then(|| self.number());
        Plan {
            mode,
            steps,
            mark,
            rows: 50,
            scope: Scope::Open,
            alone: false,
            schema: None,
            dawdles_ns: None,
        }
    }

    fn reading(&mut self, workload: Workload) -> Vec<Step> {
        let several = self.rng.random_range(2..5);
        match workload {
            Workload::ListAppend | Workload::Mixed => {
                (0..several).map(|_| Step::Read(self.key('l'), self.lock())).collect()
            }
            Workload::RwRegister => {
                (0..several).map(|_| Step::Read(self.key('r'), self.lock())).collect()
            }
            Workload::Bank => vec![self.scan('a')],
            Workload::Set => vec![self.scan('s')],
            Workload::Counter => vec![Step::Read(COUNTER.into(), self.lock())],
            Workload::LongFork => {
                (0..several).map(|_| Step::Read(self.late('f'), Lock::Shared)).collect()
            }
            Workload::Monotonic => vec![self.scan('m')],
            Workload::CausalReverse => {
                (0..several + 2).map(|_| Step::Read(self.late('c'), Lock::Shared)).collect()
            }
            Workload::Predicate => vec![self.scan('p')],
        }
    }

    fn writing(&mut self, workload: Workload) -> Vec<Step> {
        let several = self.rng.random_range(1..4);
        match workload {
            Workload::ListAppend | Workload::Mixed => {
                let append = |this: &mut Self| match this.rng.random_bool(0.6) {
                    true => Step::Append(this.key('l'), this.number()),
                    false => Step::Read(this.key('l'), this.lock()),
                };
                (0..several).map(|_| append(self)).collect()
            }
            Workload::RwRegister => {
                let mut steps = Vec::new();
                for _ in 0..several {
                    let key = self.key('r');
                    if self.rng.random_bool(0.7) {
                        steps.push(Step::Read(key.clone(), self.lock()));
                    }
                    if self.rng.random_bool(0.7) {
                        steps.push(Step::Write(key, Some(self.number())));
                    }
                }
                steps
            }
            Workload::Bank => {
                let from = self.rng.random_range(0..ACCOUNTS);
                let to = (from + self.rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
                vec![Step::Move(format!("a{from}"), format!("a{to}"), self.rng.random_range(1..60))]
            }
            Workload::Set => {
                let number = self.number();
                vec![Step::Write(format!("s{number:06}"), Some(number))]
            }
            Workload::Counter => vec![Step::Increment(COUNTER.into())],
            Workload::LongFork => {
                let number = self.number();
                vec![Step::Write(format!("f{number:06}"), Some(number))]
            }
            Workload::CausalReverse => {
                let number = self.number();
                vec![Step::Write(format!("c{number:06}"), Some(number))]
            }
            Workload::Monotonic => {
                let ((low, high), number) = (range('m'), self.number());
                vec![Step::Next(low, high, format!("m{number:06}"))]
            }
            Workload::Predicate => {
                let number = self.number();
                let group = number / 4; // Several clients share each group.
                let (low, high) = (format!("p{group:06}"), format!("p{:06}", group + 1));
                vec![Step::InsertUnless(low.clone(), high, format!("{low}.{number}"), number)]
            }
        }
    }

    /// Draws a snapshot at a recent commit, or at that or any later time.
    fn of_the_past(&mut self) -> Mode {
        let at = self.past[self.rng.random_range(0..self.past.len())];
        Mode::ReadOnly(if self.rng.random_bool(0.5) {
            ReadAt::Exact(at)
        } else {
            ReadAt::AtLeast(at)
        })
    }

    fn mixed(&mut self) -> Plan {
        let mut steps = Vec::new();
        let mode = match self.rng.random_range(0..10) {
            0..2 => Mode::ReadOnly(ReadAt::Now),
            3.. if self.reader => Mode::ReadOnly(ReadAt::Now),
            2 if !self.past.is_empty() => self.of_the_past(),
            3 if self.rng.random_bool(0.3) => Mode::ReadOnly(ReadAt::Exact(self.present)),
            _ => Mode::ReadWrite,
        };
        let writes = mode == Mode::ReadWrite;
        for _ in 0..self.rng.random_range(1..5) {
            let lock = self.lock();
            let kind = if self.rng.random_bool(0.5) { 'l' } else { 'r' };
            let step = match self.rng.random_range(0..12) {
                0..4 if writes => {
                    let number = self.number();
                    Step::Append(self.key('l'), number)
                }
                4..6 if writes => {
                    let number = self.number();
                    Step::Write(self.key('r'), Some(number))
                }
                6 if writes => {
                    let number = self.number();
                    steps.push(Step::Write(self.key('r'), None));
                    Step::Append(self.key('l'), number)
                }
                7 if writes => Step::Regret(self.key(kind)),
                8 => self.scan(kind),
                9 => Step::Think(self.rng.random_range(0..30_000_000)),
                _ => Step::Read(self.key(kind), lock),
            };
            steps.push(step);
        }
        if !self.hurries && self.rng.random_bool(0.02) {
            // A transaction that holds its locks for three seconds.
            steps.push(Step::Think(3_000_000_000));
        }
        Plan {
            mode,
            steps,
            mark: None,
            rows: 2,
            scope: Scope::Open,
            alone: false,
            schema: None,
            dawdles_ns: None,
        }
    }
}
