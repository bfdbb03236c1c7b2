//! The same systems in a virtual world built from one seed.
