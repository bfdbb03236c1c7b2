//! What clients try to do.
//!
//! Keys that begin with `l` are lists, to which is appended by reading and writing; all others are
//! registers. Every element is written once, so that it names its writer; where numbers mean
//! something (balances, counters), a transaction also writes a key of its own, its *mark*.

use crate::client::MARK;
use meridian_clock::Timestamp;
use meridian_history::{Transaction, invariants};
use meridian_systems::Protocol;
use meridian_txn::{Lock, Mode, ReadAt};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::str::FromStr;

/// What the clients of a world do. (All but the first are Jepsen's.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Lists and registers in one transaction: reads, appends, writes, deletes, scans both ways,
    /// savepoints, pauses, reads of the past.
    Mixed,
    /// Reads of lists and appends to them.
    ListAppend,
    /// Reads and writes of registers.
    RwRegister,
    /// Money moves between accounts; readers count all of it.
    Bank,
    /// Elements are added, each once; readers look at all of them.
    Set,
    /// One added to a number; readers look at it.
    Counter,
    /// Writes of single keys; readers compare several.
    LongFork,
    /// The greatest number and one more.
    Monotonic,
    /// Writes of one key after the other; readers look whether an earlier one is missing.
    CausalReverse,
    /// Two insert where only one may: each looks at the range first.
    Predicate,
}

impl Workload {
    /// Every one.
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

    /// Those that mean something without transactions: every value that they write is another, and
    /// none of it counts on what was read.
    pub const OF_REGISTERS: [Workload; 6] = [
        Workload::Mixed,
        Workload::ListAppend,
        Workload::RwRegister,
        Workload::Set,
        Workload::LongFork,
        Workload::CausalReverse,
    ];

    /// Those that a protocol can be held against.
    pub fn of(protocol: &Protocol) -> &'static [Workload] {
        if protocol.has_transactions() { &Workload::ALL } else { &Workload::OF_REGISTERS }
    }

    /// The name, as in `--workload`.
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

    /// A key in the middle of those that it uses, where so many transactions write: on both sides
    /// of it something happens.
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

    /// What it promises by itself; less where the order need not be that of real time.
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

/// One thing to do.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Read(String, Lock),
    Append(String, i64),
    Write(String, Option<i64>),
    /// Low, high, backwards.
    Scan(String, String, bool),
    /// Writes something and takes it back.
    Regret(String),
    Think(u64),
    /// Money from one account to another, if there is enough.
    Move(String, String, i64),
    /// One more, by reading and writing.
    Increment(String),
    /// Writes one more than the greatest of a range to a new key of it.
    Next(String, String, String),
    /// Writes a key if a range is empty.
    InsertUnless(String, String, String, i64),
}

/// What a transaction says of what it will read (Spanner §4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Open,
    Said,
    /// If it lies in several shards, they negotiate.
    Negotiated,
}

/// A transaction to be tried.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub mode: Mode,
    pub steps: Vec<Step>,
    /// A number that no other transaction has, written to a key of its own.
    pub mark: Option<i64>,
    /// How many rows a scan asks for at once.
    pub rows: usize,
    /// What is said of its scope.
    pub scope: Scope,
    /// One statement and no transaction block around it.
    pub alone: bool,
    /// A change of the schema before it, in SQL.
    pub schema: Option<&'static str>,
    /// So long a pause between planning and running, in SQL.
    pub dawdles_ns: Option<u64>,
}

/// What becomes of the table's schema while others use it. What a statement finds done already it
/// leaves alone.
const SCHEMA: &[&str] = &[
    "CREATE INDEX IF NOT EXISTS lab_by_v ON lab (v)",
    "DROP INDEX IF EXISTS lab_by_v",
    "ALTER TABLE lab ADD COLUMN IF NOT EXISTS extra int",
    "ALTER TABLE lab DROP COLUMN IF EXISTS extra",
    // Rows that lack a default are written anew, to another place: who goes on at the old one loses
    // what he wrote.
    "ALTER TABLE lab ADD COLUMN IF NOT EXISTS a int DEFAULT 1",
    "ALTER TABLE lab ADD COLUMN IF NOT EXISTS b int DEFAULT 1",
    "ALTER TABLE lab ADD COLUMN IF NOT EXISTS c int DEFAULT 1",
    "CREATE TABLE IF NOT EXISTS beside (id int PRIMARY KEY)",
    "DROP TABLE IF EXISTS beside",
];

impl Plan {
    /// The same where the past cannot be asked for.
    pub fn of_the_present(self) -> Plan {
        match self.mode {
            Mode::ReadOnly(_) => Plan { mode: Mode::ReadOnly(ReadAt::Now), ..self },
            Mode::ReadWrite => self,
        }
    }

    /// The same for a client that speaks SQL: it hears no timestamps, so that all it writes has a
    /// mark, and what is one statement is sometimes sent as such.
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

/// What plans are drawn from, and what they leave behind for later ones.
pub(crate) struct Drawing<'a> {
    pub rng: &'a mut ChaCha8Rng,
    /// Nobody goes for coffee: all are to get on.
    pub hurries: bool,
    /// Writes nothing, and so gets on where others wait for a majority.
    pub reader: bool,
    /// Few keys: clients meet.
    pub keys: u32,
    /// The newest number that was given out.
    pub next: &'a mut i64,
    /// Commit timestamps of late.
    pub past: &'a [Timestamp],
    /// What a clock surely shows now: above every commit, most of the time.
    pub present: Timestamp,
}

const ACCOUNTS: u32 = 5;
/// What each account holds at first.
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

    /// One of the keys that were written of late, or soon will be.
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
            _ => Mode::ReadWrite, // Under locks, also if it only reads.
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
                let group = number / 4; // Some clients meet in each.
                let (low, high) = (format!("p{group:06}"), format!("p{:06}", group + 1));
                vec![Step::InsertUnless(low.clone(), high, format!("{low}.{number}"), number)]
            }
        }
    }

    /// A snapshot at what was committed lately, or at that or anything later.
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
            // Somebody who went for coffee with locks in hand.
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
