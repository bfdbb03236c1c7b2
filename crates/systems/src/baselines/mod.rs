//! What the papers measure their systems against, from the same bricks: so that a comparison is of
//! protocols, and not of programs.

pub mod qwstore;
