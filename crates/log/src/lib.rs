//! The node's one log, over `trait Disk`.
