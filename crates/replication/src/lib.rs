//! Leader-based groups with timed leases.
