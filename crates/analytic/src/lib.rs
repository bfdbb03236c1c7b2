//! SELECT in its full breadth, by DataFusion: the one crate that links it.
