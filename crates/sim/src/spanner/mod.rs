//! The spanner recipe's part of a world: what a node's life is, and what its sessions see of it.

pub mod desk;
#[cfg(test)]
mod hearsay;
pub mod life;

/// The recipe.
pub struct Spanner;
