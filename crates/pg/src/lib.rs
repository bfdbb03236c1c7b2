//! The PostgreSQL wire.
