//! The systems on real sockets, files, threads and clocks.

pub mod clock;
pub mod envelope;
pub mod identity;
pub mod journal;
pub mod mailbox;
pub mod peers;
pub mod rendezvous;
pub mod resident;
pub mod timers;
