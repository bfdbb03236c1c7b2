//! Versions by (key, timestamp), Recent, and merged reads.
