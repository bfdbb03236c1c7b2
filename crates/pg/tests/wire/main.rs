//! Tests of the wire protocol, in one program: each has a server of its own.

mod advisory;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod constraints;
mod copy;
mod errors;
mod handshake;
mod hostile;
mod interrupts;
mod notify;
mod protocol;
mod queries;
mod row_locks;
mod rows;
mod schemas;
mod sequences;
mod slt;
mod sqllogictest;
mod statistics;
mod temporary;
mod two_phase;
mod types;
