//! What members agree on.

use meridian_clock::Timestamp;
use meridian_mvcc::Write;
use meridian_replication::group::Payload;
use meridian_txn::locking::TransactionId;
use minicbor::{Decode, Encode};

const FORMAT: u8 = 1;

/// One agreed entry.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Agreed {
    /// A transaction committed.
    #[n(0)]
    Commit {
        /// The commit timestamp.
        #[n(0)]
        at: Timestamp,
        /// The attempt that committed.
        #[n(1)]
        transaction: TransactionId,
        /// What it wrote.
        #[n(2)]
        writes: Vec<Write>,
    },
    /// Nothing is committed at or below this any more: a snapshot at it was promised.
    #[n(1)]
    Floor {
        /// The promise.
        #[n(0)]
        at: Timestamp,
    },
}

/// An entry that cannot be read: another format, or not ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

impl Agreed {
    /// As a payload.
    pub fn encode(&self) -> Payload {
        let mut bytes = vec![FORMAT];
        minicbor::encode(self, &mut bytes).expect("a vector takes everything");
        Payload(bytes.into())
    }

    /// From a payload; a leader's first entry is empty.
    pub fn decode(payload: &Payload) -> Result<Option<Agreed>, Damaged> {
        match payload.0.split_first() {
            None => Ok(None),
            Some((&FORMAT, rest)) => minicbor::decode(rest).map(Some).map_err(|error| Damaged(error.to_string())),
            Some((format, _)) => Err(Damaged(format!("format {format} is newer than {FORMAT}"))),
        }
    }
}
