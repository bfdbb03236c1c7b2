//! Concurrency controls, one folder each; the Transaction trait.
