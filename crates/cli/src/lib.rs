//! The `meridian` binary and the embedded library.
