//! Databases, shards, groups, zones.
