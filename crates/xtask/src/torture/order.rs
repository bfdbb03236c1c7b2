//! The order that clients ask for: consistency modes, the ages of snapshots, and causal tokens from
//! client to client.
//!
//! A database with one mode needs none of them: its clients send no statement more.

use super::clients::ask;
use meridian_systems::Protocol;
use meridian_systems::setting::SNAPSHOT_AGE;
use meridian_txn::{Consistency, SnapshotAge};
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio_postgres::{Client, Error};

/// The probability that a session is given another client's token before a transaction.
const GIVEN: f64 = 0.2;
/// The probability that a client hands its token on after a transaction.
const HANDED_ON: f64 = 0.2;
/// The number of tokens that clients may pick from.
const TOKENS: usize = 16;
/// The probability that a transaction asks for an older snapshot than the session's last one did,
/// or for the present again.
const OTHER_AGE: f64 = 0.2;
/// The longest age of a snapshot that is drawn.
const OLDEST: Duration = Duration::from_millis(500);

/// The name of a transaction in the history: its client, and its start.
pub type Name = (u64, u64);

/// A causal token, and the transactions that it covers.
#[derive(Clone, Debug)]
pub struct Token {
    text: String,
    covers: Vec<Name>,
}

/// The modes and tokens of all clients.
#[derive(Debug)]
pub struct Order {
    /// The modes that transactions choose from.
    pub modes: Vec<Consistency>,
    /// True if the database has several modes, so that each transaction names its own.
    pub is_chosen: bool,
    /// True if transactions choose the age of their snapshots.
    pub has_ages: bool,
    /// True if clocks keep their bounds, so that mode `commit_wait` is external consistency.
    pub clocks_hold: bool,
    /// True if snapshots are those of an authority, so that every transaction is external.
    pub has_authority: bool,
    /// The number of tokens that were refused as too far ahead.
    pub refused: AtomicU64,
    handed_on: Mutex<VecDeque<Token>>,
}

/// The order that one transaction asks for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    mode: Option<Consistency>,
    /// The transactions whose tokens it was given.
    pub follows: Vec<Name>,
    /// True if it comes before every transaction that begins after its end.
    pub external: bool,
    /// How much older than its beginning its snapshot may be, in nanoseconds.
    pub snapshot_age_ns: u64,
}

/// The order of one session: its mode, and the transactions that its token covers.
#[derive(Debug, Default)]
pub struct Session {
    mode: Option<Consistency>,
    age: SnapshotAge,
    covers: Vec<Name>,
}

impl Order {
    /// Returns the order of a protocol's transactions that choose from these modes.
    pub fn new(protocol: &Protocol, modes: Vec<Consistency>, clocks_hold: bool) -> Order {
        Order {
            modes,
            is_chosen: protocol.consistency.len() > 1,
            has_ages: protocol.setting(SNAPSHOT_AGE.name).is_some(),
            clocks_hold,
            has_authority: protocol.has_authority(),
            refused: AtomicU64::new(0),
            handed_on: Mutex::default(),
        }
    }

    fn pick(&self, rng: &mut ChaCha8Rng) -> Option<Token> {
        let tokens = self.handed_on.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.is_empty() {
            return None;
        }
        tokens.get(rng.random_range(0..tokens.len())).cloned()
    }

    fn hand_on(&self, token: Token) {
        let mut tokens = self.handed_on.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.push_back(token);
        if tokens.len() > TOKENS {
            tokens.pop_front();
        }
    }
}

impl Session {
    /// Sets the mode of the next transaction, and perhaps gives it a token. `whole` says that its
    /// reads must be of one moment, which mode `none` does not promise.
    pub async fn ask_for_order(
        &mut self,
        client: &Client,
        order: &Order,
        whole: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<Asked, Option<Error>> {
        let Some(mode) = order.modes.choose(rng).copied().filter(|_| order.is_chosen) else {
            let external = order.has_authority && order.clocks_hold;
            return Ok(Asked { external, ..Asked::default() });
        };
        let mode = if whole { mode.max(Consistency::Hybrid) } else { mode };
        if self.mode != Some(mode) {
            self.mode = None; // If the statement fails, it may have taken effect.
            ask(client, &format!("SET meridian.consistency = '{mode}'")).await?;
            self.mode = Some(mode);
        }
        if order.has_ages && rng.random_bool(OTHER_AGE) {
            self.set_age(client, rng).await?;
        }
        if rng.random_bool(GIVEN)
            && let Some(token) = order.pick(rng)
        {
            self.take(client, order, &token).await?;
        }
        let follows = match mode {
            Consistency::None => Vec::new(),
            Consistency::Hybrid | Consistency::CommitWait => self.covers.clone(),
        };
        let external = mode == Consistency::CommitWait && order.clocks_hold;
        let snapshot_age_ns = u64::try_from(self.age.longest().as_nanos()).unwrap_or(u64::MAX);
        Ok(Asked { mode: Some(mode), follows, external, snapshot_age_ns })
    }

    /// Draws the age of the session's snapshots.
    async fn set_age(
        &mut self,
        client: &Client,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), Option<Error>> {
        let age = match rng.random_range(0..4) {
            0 | 1 => SnapshotAge::PRESENT,
            2 => SnapshotAge::Auto,
            _ => {
                let longest = OLDEST.as_micros() as u64;
                SnapshotAge::Fixed(Duration::from_micros(rng.random_range(1..=longest)))
            }
        };
        // If the statement fails, it may have taken effect: the longer of both counts.
        self.age = if age.longest() > self.age.longest() { age } else { self.age };
        ask(client, &format!("SET meridian.snapshot_age = '{age}'")).await?;
        self.age = age;
        Ok(())
    }

    /// Gives the session a token. One that is too far ahead of the node's clock is refused, and
    /// changes nothing.
    pub async fn take(
        &mut self,
        client: &Client,
        order: &Order,
        token: &Token,
    ) -> Result<(), Option<Error>> {
        let set = format!("SET meridian.causal_token = '{}'", token.text);
        match ask(client, &set).await {
            Ok(_) => {}
            Err(Some(error)) if error.code().is_some_and(|code| code.code() == "22023") => {
                order.refused.fetch_add(1, Relaxed);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.covers.extend(&token.covers);
        self.covers.sort_unstable();
        self.covers.dedup();
        Ok(())
    }

    /// Adds a transaction that has committed, and perhaps returns its token, which other clients
    /// may use from then on.
    pub async fn add(
        &mut self,
        client: &Client,
        order: &Order,
        asked: &Asked,
        (name, wrote): (Name, bool),
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Token>, Option<Error>> {
        if asked.mode.is_none_or(|mode| mode == Consistency::None) {
            return Ok(None);
        }
        // The token of a transaction that only read may lie below its beginning. That of the
        // session only grows.
        self.covers = if wrote { Vec::new() } else { asked.follows.clone() };
        self.covers.push(name);
        if !rng.random_bool(HANDED_ON) {
            return Ok(None);
        }
        let rows = ask(client, "SELECT meridian.causal_token()").await?;
        let text = rows.first().and_then(|row| row.get(0)).unwrap_or_default().to_owned();
        let token = Token { text, covers: self.covers.clone() };
        order.hand_on(token.clone());
        Ok(Some(token))
    }
}
