//! The transactions of the TAPIR paper's two workloads (§5.1; TOCS'18, Table 3), and of the K2
//! paper's YCSB-T (§7.1).

use meridian_clock::Timestamp;
use meridian_mvcc::{Key, Value};
use meridian_txn::{Age, Begin, Conflict, Consistency, Database, Failure, Lock, Mode, Outcome};
use rand::Rng;
use rand::rngs::StdRng;

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mix {
    /// Two operations, half of them writes, keys drawn uniformly.
    Micro,
    /// New users, followers, tweets and timelines; keys by Zipf's law with 0.75.
    Retwis,
    /// Three operations, some of them writes that read nothing; keys by Zipf's law.
    YcsbT {
        /// The exponent of Zipf's law; 0 draws keys uniformly.
        zipf: f64,
        /// The share of writes among the operations.
        writes: f64,
    },
}

impl Mix {
    /// Returns the name of its command.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Micro => "micro",
            Mix::Retwis => "retwis",
            Mix::YcsbT { .. } => "ycsb-t",
        }
    }

    /// Returns the exponent of the law that its keys are drawn by.
    fn zipf(self) -> f64 {
        match self {
            Mix::Micro => 0.0,
            Mix::Retwis => 0.75,
            Mix::YcsbT { zipf, .. } => zipf,
        }
    }
}

/// The keys, and their distribution.
pub struct Keys {
    many: usize,
    /// The sums of the weights up to each key; empty if all weigh the same.
    sums: Vec<f64>,
}

/// The key length of the paper's artifact.
const KEY_BYTES: usize = 64;

impl Keys {
    /// Creates this many keys, with a workload's distribution.
    pub fn of(mix: Mix, many: usize) -> Keys {
        let weigh = |sum: &mut f64, rank: usize| {
            *sum += (rank as f64).powf(-mix.zipf());
            Some(*sum)
        };
        let uniform = mix.zipf() == 0.0;
        let sums = if uniform { Vec::new() } else { (1..=many).scan(0.0, weigh).collect() };
        Keys { many, sums }
    }

    /// Returns all keys.
    pub fn all(&self) -> impl Iterator<Item = Key> {
        (0..self.many).map(key)
    }

    fn draw(&self, random: &mut StdRng) -> Key {
        match self.sums.last() {
            None => key(random.random_range(0..self.many)),
            Some(all) => {
                let at = random.random_range(0.0..*all);
                key(self.sums.partition_point(|sum| *sum <= at).min(self.many - 1))
            }
        }
    }

    /// Draws this many different keys.
    fn some(&self, many: usize, random: &mut StdRng) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::with_capacity(many);
        while keys.len() < many.min(self.many) {
            let key = self.draw(random);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

fn key(number: usize) -> Key {
    // Scatters neighbouring numbers over the key space.
    let scattered = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Key::from(format!("{scattered:016x}{number:0width$}", width = KEY_BYTES - 16).as_str())
}

/// The state that a client keeps from one transaction to the next.
pub struct Session {
    /// The consistency mode of its transactions.
    pub consistency: Consistency,
    /// The greatest timestamp that it has seen: its transactions come after it.
    pub token: Timestamp,
}

/// The reads and writes of a transaction.
pub struct Plan {
    reads: Vec<Key>,
    writes: Vec<Key>,
}

impl Plan {
    /// Draws a transaction.
    pub fn draw(mix: Mix, keys: &Keys, random: &mut StdRng) -> Plan {
        let of = |gets: usize, puts: usize, random: &mut StdRng| {
            let all = keys.some(gets.max(puts), random);
            Plan { reads: all[..gets].to_vec(), writes: all[..puts].to_vec() }
        };
        match mix {
            Mix::Micro => Plan::drawn_apart(2, 0.5, keys, random),
            Mix::YcsbT { writes, .. } => Plan::drawn_apart(3, writes, keys, random),
            Mix::Retwis => match random.random_range(0..100) {
                0..5 => of(1, 3, random),   // a new user
                5..20 => of(2, 2, random),  // follows
                20..50 => of(3, 5, random), // tweets
                _ => {
                    let timeline = random.random_range(1..=10);
                    of(timeline, 0, random)
                }
            },
        }
    }

    /// Draws operations on different keys, each of which is a write with this probability.
    fn drawn_apart(operations: usize, share: f64, keys: &Keys, random: &mut StdRng) -> Plan {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for key in keys.some(operations, random) {
            if random.random_bool(share) { writes.push(key) } else { reads.push(key) }
        }
        Plan { reads, writes }
    }

    /// Attempts the transaction once, after all that the session has seen.
    pub async fn attempt(
        &self,
        database: &dyn Database,
        session: &mut Session,
        age: &mut Option<Age>,
    ) -> Result<Outcome, Failure> {
        let &mut Session { consistency, token } = session;
        let begin = Begin { consistency, token, ..Begin::new(Mode::ReadWrite).aged(*age) };
        let mut transaction = database.begin(begin).await?;
        *age = Some(transaction.age());
        for key in &self.reads {
            // A key that will be written is locked exclusively at once, where there are locks:
            // otherwise two such transactions would wait for each other.
            let lock = if self.writes.contains(key) { Lock::Exclusive } else { Lock::Shared };
            match transaction.get(key, lock).await {
                Ok(_) => {}
                Err(Failure::Aborted(why)) => return Ok(Outcome::Aborted { why }),
                Err(failure) => return Err(failure),
            }
        }
        for key in &self.writes {
            transaction.put(key.clone(), Some(Value::from(&key[..])))?;
        }
        session.token = session.token.max(transaction.token());
        let outcome = transaction.commit().await;
        if let Outcome::Committed { at } = outcome {
            session.token = session.token.max(at);
        }
        Ok(outcome)
    }
}

/// True if an attempt with this outcome is to be retried.
pub fn again(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Aborted { why } if *why != Conflict::RolledBack)
}
