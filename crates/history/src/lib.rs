//! What clients saw, and the judges.
