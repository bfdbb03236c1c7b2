//! The systems on real sockets, files, threads and clocks.
