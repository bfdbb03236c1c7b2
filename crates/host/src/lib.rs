//! The systems on real sockets, files, threads and clocks.
//!
//! ```text
//!   session ──▶ gateway ──▶ shard's machine ──▶ journal (one log thread, one fsync for all)
//!                               │    ▲                │
//!                               │    └── durable ─────┘
//!                               └──▶ space: Recent ──▶ store (settler, checkpoints)
//! ```
//!
//! Whoever delivers to an idle machine steps it on his own thread ([`mailbox`], [`resident`]); timers wake it from one thread
//! ([`timers`]); nodes speak in frames ([`peers`]),
//! and believe each other by certificates ([`trust`]). [`node::Node`] puts it together.

pub mod clock;
pub mod desk;
pub mod directory;
pub mod gateway;
pub mod identity;
pub mod journal;
mod kept;
pub mod mailbox;
pub mod member;
pub mod node;
pub mod oracle;
pub mod outlet;
pub mod panics;
pub mod peers;
pub mod plumbing;
mod private;
pub mod qwstore;
pub mod readers;
pub mod rendezvous;
pub mod resident;
pub mod rounds;
mod sessions;
pub mod settle;
pub mod sources;
pub mod tapir;
pub mod timers;
pub mod transfer;
pub mod trust;
