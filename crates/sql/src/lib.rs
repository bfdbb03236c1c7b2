//! Names to keys, rows to values, statements to reads and writes.
