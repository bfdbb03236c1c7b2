//! One page per named system: which bricks meet.
