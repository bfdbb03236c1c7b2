//! The node's one log.
//!
//! Every machine of a node keeps its records here, so that one fsync serves them all. A record is
//! acknowledged when it has been written *and* synced; the world does both, in batches, and then
//! tells the machines.
//!
//! ```text
//! log-00000007 ── sealed ──▶ log-00000008 ── sealed ──▶ log-00000009 (open)
//!  header │ record │ record │ … │ seal
//!           └ length, checksum of the header, checksum of the payload, whose it is, how far the log was synced
//! ```
//!
//! 1. Checksums cover the segment's number and the record's offset: what an earlier use of the file
//!    left there, or a write that went to the wrong place, is never taken for a record.
//! 2. A segment is sealed and synced before the next is begun, and every start begins a new one.
//! 3. What does not check at the end of the newest segment was never acknowledged, if no later
//!    record says that the log was synced beyond it: it is cut. Anything else that does not check
//!    is damage, and refused. Before recovery relies on the rest of that segment, it writes it
//!    again, sealed, to a file that takes the segment's name once it is durable: after a failed
//!    sync the page cache alone may hold it, and a restart cannot tell. Records of sealed segments
//!    were synced before the seal was written; of the newest, preamble and seal are written again.
//!    Recovery that is broken off leaves the segment as it was.
//! 4. Not told apart: after a crash, a flipped bit in the very last synced batch looks like a torn
//!    one and is cut. A replicated group gets it back from its other members; a single node does
//!    not notice. A log that was closed in order has no such batch.
//! 5. Each segment says which was the oldest that is needed beside it, before any older one is let
//!    go: a segment that is missing in the middle or at the beginning is damage, too. (Not told
//!    apart: one that is missing at the end, from one that was never begun.)
//! 6. A full disk loses nothing that was appended, and the log opens on one. The next segment's
//!    file is made ahead ([`Log::prepare`]), so that what must not wait has room when the disk has
//!    none.

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
