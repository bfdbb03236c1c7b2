//! One page per named system: which bricks meet.
//!
//! A system is a recipe: it introduces a concurrency control (`txn`) to a way of agreeing (`replication`), and decides nothing that either of
//! them could decide. A database chooses its recipe when it is created ([`Recipe`]); what stands above sees the same
//! [`Transaction`](meridian_txn::Transaction) whichever runs.

pub mod baselines;
mod distances;
pub mod envelope;
pub mod spanner;
pub mod tapir;
mod wire;

pub use distances::Distances;
pub use wire::Wire;

use meridian_txn::tapir::Guarantee;

/// Which system runs a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recipe {
    /// [`spanner`]: leaders, locks, commit wait.
    #[default]
    Spanner,
    /// [`tapir`]: replicas without leader or order, transactions that validate.
    Tapir(Guarantee),
    /// [`baselines::qwstore`]: written everywhere, read anywhere, and no transactions. To be compared with.
    QwStore,
}

impl Recipe {
    /// Those that have transactions, on which SQL can stand.
    pub const OF_TRANSACTIONS: [Recipe; 3] =
        [Recipe::Spanner, Recipe::Tapir(Guarantee::StrictlySerializable), Recipe::Tapir(Guarantee::Serializable)];

    /// Every one.
    pub const ALL: [Recipe; 4] = [
        Recipe::Spanner,
        Recipe::Tapir(Guarantee::StrictlySerializable),
        Recipe::Tapir(Guarantee::Serializable),
        Recipe::QwStore,
    ];

    /// What it is called: `PROTOCOL = name`.
    pub fn name(self) -> &'static str {
        match self {
            Recipe::Spanner => "spanner",
            Recipe::Tapir(Guarantee::StrictlySerializable) => "tapir",
            Recipe::Tapir(Guarantee::Serializable) => "tapir-serializable",
            Recipe::QwStore => "qwstore",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Recipe> {
        Recipe::ALL.into_iter().find(|recipe| recipe.name() == name)
    }

    /// Whether its transactions happen as a whole, and as if alone. Where they do not, nothing can be promised of tables.
    pub fn has_transactions(self) -> bool {
        Recipe::OF_TRANSACTIONS.contains(&self)
    }
}
