//! Databases whose shards have leaders, on this node: replicas of shards, and the request router by
//! which sessions reach leaders. All of it is the same for every concurrency control.
//!
//! | file | content |
//! |---|---|
//! | `handle` | the database as the node uses it |
//! | `lifecycle` | start and end of this node's replicas |
//! | `member` | the runtime of a replica: its messages, records and effects |
//! | `slot` | the state by which sessions read without a step of the replica |
//! | `router` | the request router: waiting requests, and transactions that hold locks |
//! | `shards` | the coordinators' way to the shards' replicas |
//! | `copies` | a replica's part in copies of whole shards |

mod copies;
mod handle;
mod lifecycle;
mod member;
mod request_router;
mod shards;
pub mod slot;

pub use handle::{HOSTED, HOSTED_CLOCK_SI, HOSTED_CONVENTIONAL_SI, HOSTED_HYBRID_TIME, HOSTED_K2};
pub use member::{MemberShard, Timeouts};
