//! The qwstore recipe's part of a world: what a node's life is, and what its sessions see of it.

pub mod desk;
pub mod life;

/// The recipe.
pub struct QwStore;
