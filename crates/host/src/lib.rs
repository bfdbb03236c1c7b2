//! The systems on real sockets, files, threads and clocks.

pub mod clock;
pub mod identity;
pub mod mailbox;
pub mod peers;
pub mod timers;
