//! Databases of the spanner protocol on this node: members of shards' groups, and the sessions that
//! ask leaders.
//!
//! | file | question |
//! |---|---|
//! | `handle` | how does the node reach such a database? |
//! | `lifecycle` | when does a member of this node begin and end? |
//! | `member` | what does a node do for a member? |
//! | `slot` | what may a session read without a step of the machine? |
//! | `sessions` | which leaders do sessions ask, what do they wait for, and what do they hold? |
//! | `shards` | how do coordinators reach the shards? |
//! | `copies` | how does a member take part in copies of whole shards? |

mod copies;
mod handle;
mod lifecycle;
mod member;
mod sessions;
mod shards;
pub mod slot;

pub use handle::HOSTED;
pub use member::{MemberShard, Patience};
