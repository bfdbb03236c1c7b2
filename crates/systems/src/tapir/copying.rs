//! How a replica that takes over gets what is in no record any more: it reads what is settled at another one, page by page.
//!
//! ```text
//!   the first view begins    its record has all that ever commits above what is settled; so what is wanted is what stood there
//!   Copy(range) ──▶ one of the others    Looked(page, rest) ◀──    installed, and the rest is asked for
//!   …                                    nothing is left: from now on it serves, and says what it has for good
//! ```
//!
//! Until then it votes, as that takes what the record has, and serves no reads; and nothing is forgotten anywhere, as it has nothing for good. It has no history: what stood below is refused.

use super::{Message, Page};
use meridian_clock::Timestamp;
use meridian_machine::NodeId;
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::inconsistent::OpId;

/// So many rows are asked for at once.
const PAGE_ROWS: u32 = 10_000;

/// A copy under way.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    /// As of when; none, before a view has begun.
    at: Option<Timestamp>,
    /// What is wanted still.
    rest: KeyRange,
    /// The question that was asked last.
    asked: Option<OpId>,
    /// Whose turn it is to be asked.
    turn: usize,
}

/// What comes of a page.
pub(super) enum Copied {
    /// These versions are to be installed, and more is wanted.
    More(Vec<(Timestamp, Write)>),
    /// The same, and that was all: what stood below the timestamp is not here.
    All(Vec<(Timestamp, Write)>, Timestamp),
}

impl Copying {
    /// All of a shard with these keys.
    pub fn of(bounds: KeyRange) -> Copying {
        Copying { at: None, rest: bounds, asked: None, turn: 0 }
    }

    /// A view has begun, with a record that has everything above. Whether there is nothing to copy.
    pub fn begin(&mut self, settled: Timestamp) -> bool {
        *self.at.get_or_insert(settled) == Timestamp::ZERO
    }

    /// Asks one of the others, another one each time.
    pub fn ask(&mut self, id: OpId, others: &[NodeId]) -> Option<(NodeId, Message)> {
        let (at, to) = (self.at?, *others.get(self.turn % others.len().max(1))?);
        (self.asked, self.turn) = (Some(id), self.turn + 1);
        Some((to, Message::Copy { id, at, range: self.rest.clone(), limit_rows: PAGE_ROWS }))
    }

    /// Whoever answered well is asked again.
    pub fn take(&mut self, id: OpId, page: Page) -> Option<Copied> {
        self.asked.take_if(|asked| *asked == id)?;
        self.turn = self.turn.saturating_sub(1);
        Some(match page.rest {
            Some(rest) => {
                self.rest = rest;
                Copied::More(page.versions)
            }
            None => Copied::All(page.versions, self.at.unwrap_or_default()),
        })
    }

    /// What is wanted is older than what somebody keeps: it begins anew with the oldest there.
    pub fn too_old(&mut self, id: OpId, oldest: Timestamp, bounds: KeyRange) {
        if self.asked.take_if(|asked| *asked == id).is_some() && self.at < Some(oldest) {
            *self = Copying { at: Some(oldest), rest: bounds, ..self.clone() };
        }
    }
}
