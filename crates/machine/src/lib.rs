//! The contract: a protocol is a value you step.
