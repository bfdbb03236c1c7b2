//! The protocols on real sockets, files, threads and clocks.
//!
//! ```text
//!   session ──▶ coordinator ──▶ shard's replica ──▶ journal (one log thread, one fsync for all)
//!                               │    ▲                │
//!                               │    └── durable ─────┘
//!                               └──▶ space: Recent ──▶ store (settler, checkpoints)
//! ```
//!
//! A thread that posts to an idle state machine steps it ([`mailbox`], [`actor`]). Local
//! sessions read without a step, by the state that the last step published ([`shard::slot`]).
//! One thread wakes machines when their timers are due ([`timers`]). Nodes exchange frames
//! ([`peers`]) and authenticate each other by certificates ([`trust`]). [`node::Node`] assembles
//! the parts.

pub mod actor;
pub mod clock;
pub mod clock_sync;
pub mod context;
pub mod database;
pub mod directory;
mod durable_file;
pub mod flusher;
pub mod identity;
pub mod journal;
pub mod local_node;
pub mod mailbox;
pub mod node;
pub mod node_resources;
pub mod oneshot;
pub mod panics;
pub mod peers;
mod private;
pub mod protocols;
pub mod questions;
pub mod qwstore;
pub mod readers;
pub mod replica_io;
pub mod request_router;
pub mod shard;
pub mod sources;
pub mod sync;
pub mod tapir;
pub mod timers;
pub mod transfer;
pub mod trust;
