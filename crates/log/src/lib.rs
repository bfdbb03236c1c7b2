//! The node's one log.
//!
//! Every state machine of a node keeps its records here, so that one fsync serves all of them. A
//! record is acknowledged when it has been written *and* synced. The host does both in batches, and
//! then notifies the machines.
//!
//! ```text
//! log-00000007 ── sealed ──▶ log-00000008 ── sealed ──▶ log-00000009 (open)
//!  preamble │ record │ record │ … │ seal
//!             └ header checksum, length, payload checksum, machine, offset up to which the log was
//!               synced; payload
//! ```
//!
//! 1. Checksums cover the segment's number and the record's offset: neither the old content of a
//!    reused file nor a misdirected write is ever taken for a record.
//! 2. A segment is sealed and synced before the next one is started, and every start of the node
//!    starts a new one.
//! 3. Bytes at the end of the newest segment that do not match their checksums were never
//!    acknowledged, if no later record states that the log was synced beyond them: they are cut.
//!    Any other mismatch is damage, and opening fails. Before recovery relies on the remaining
//!    records of that segment, it rewrites them, sealed, to a file that takes the segment's name
//!    once it is durable: after a failed sync the page cache alone may hold them, and a restart
//!    cannot tell. Records of sealed segments were synced before the seal was written; of the
//!    newest one, preamble and seal are rewritten. Interrupted recovery leaves the segment as it
//!    was.
//! 4. Limit: after a crash, a flipped bit in the very last synced batch looks like a torn write and
//!    is cut. A replicated group restores the record from its other replicas; a single node does
//!    not notice. A log that was closed in order has no such batch.
//! 5. Each segment names the oldest segment that is needed beside it, before any older one is
//!    removed: a segment that is missing in the middle or at the beginning is damage, too. Limit: a
//!    segment that is missing at the end looks like one that was never started.
//! 6. A full disk loses nothing that was appended, and the log opens on one. The next segment's
//!    file is allocated ahead ([`Log::prepare`]), so that writes in flight have room.

mod disk;
mod log;
mod memory;
mod os;
pub mod rules;
mod segment;

pub use disk::{Disk, File};
pub use log::{Log, LogError, Lsn, MachineKey, Options, Recovered};
pub use memory::{Faults, MemoryDisk};
pub use os::OsDisk;
