//! The order that clients ask for: consistency modes, and causal tokens from client to client.
//!
//! A database with one mode needs neither: its clients send no statement more.

use super::clients::ask;
use meridian_txn::Consistency;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tokio_postgres::{Client, Error};

/// The probability that a session is given another client's token before a transaction.
const GIVEN: f64 = 0.2;
/// The probability that a client hands its token on after a transaction.
const HANDED_ON: f64 = 0.2;
/// The number of tokens that clients may pick from.
const TOKENS: usize = 16;

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
    /// True if clocks keep their bounds, so that mode `commit_wait` is external consistency.
    pub clocks_hold: bool,
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
}

/// The order of one session: its mode, and the transactions that its token covers.
#[derive(Debug, Default)]
pub struct Session {
    mode: Option<Consistency>,
    covers: Vec<Name>,
}

impl Order {
    /// Returns the order of transactions that choose from these modes.
    pub fn new(modes: Vec<Consistency>, is_chosen: bool, clocks_hold: bool) -> Order {
        let (refused, handed_on) = (AtomicU64::new(0), Mutex::default());
        Order { modes, is_chosen, clocks_hold, refused, handed_on }
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
            return Ok(Asked::default());
        };
        let mode = if whole { mode.max(Consistency::Hybrid) } else { mode };
        if self.mode != Some(mode) {
            self.mode = None; // If the statement fails, it may have taken effect.
            ask(client, &format!("SET meridian.consistency = '{mode}'")).await?;
            self.mode = Some(mode);
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
        Ok(Asked { mode: Some(mode), follows, external })
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
        name: Name,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Token>, Option<Error>> {
        if asked.mode.is_none_or(|mode| mode == Consistency::None) {
            return Ok(None);
        }
        self.covers = vec![name];
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
