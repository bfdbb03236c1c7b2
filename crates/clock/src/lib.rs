//! Timestamps, intervals, and where they come from.
