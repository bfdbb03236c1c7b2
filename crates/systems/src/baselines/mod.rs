//! Stores that the papers compare their systems with, built from the same parts, so that a
//! comparison is of protocols and not of programs.

pub mod qwstore;
