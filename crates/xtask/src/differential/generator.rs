//! The generator: it draws everything from one seed.

use super::features::{Feature, Skipped};
use super::schema::Table;
use super::types::SqlType;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A relation that FROM can name: a table, or a query of WITH.
#[derive(Clone, Debug)]
pub struct Relation {
    /// The name.
    pub name: String,
    /// The names and types of the columns.
    pub columns: Vec<(String, SqlType)>,
}

/// Draws schemas and statements.
pub struct Generator<'a> {
    rng: ChaCha8Rng,
    skipped: &'a Skipped,
    aliases: usize,
    /// The relations that FROM can name here.
    pub relations: Vec<Relation>,
}

impl<'a> Generator<'a> {
    /// Creates a generator that leaves these parts out.
    pub fn new(seed: u64, skipped: &'a Skipped) -> Generator<'a> {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Generator { rng, skipped, aliases: 0, relations: Vec::new() }
    }

    /// Makes the tables known.
    pub fn know(&mut self, tables: &[Table]) {
        let relation = |table: &Table| Relation {
            name: table.name.clone(),
            columns: table.columns.iter().map(|c| (c.name.clone(), c.of)).collect(),
        };
        self.relations = tables.iter().map(relation).collect();
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }

    /// Returns true with this probability, unless the feature is left out.
    pub fn has(&mut self, feature: Feature, probability: f64) -> bool {
        self.chance(probability) && !self.skips(feature)
    }

    /// True if the feature is left out.
    pub fn skips(&self, feature: Feature) -> bool {
        self.skipped.features.contains(&feature)
    }

    /// True if forms of expressions with this text are left out.
    pub fn skips_form(&self, template: &str) -> bool {
        self.skipped.forms.iter().any(|form| template.contains(form.as_str()))
    }

    /// Returns a number below the limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.rng.random_range(0..limit)
    }

    /// Returns one of several choices.
    pub fn pick<'b, T>(&mut self, choices: &'b [T]) -> &'b T {
        &choices[self.below(choices.len())]
    }

    /// Returns a new name.
    pub fn alias(&mut self, letter: char) -> String {
        self.aliases += 1;
        format!("{letter}{}", self.aliases)
    }

    /// Returns a list of types, which are those of a query's columns.
    pub fn types(&mut self, at_most: usize) -> Vec<SqlType> {
        (0..1 + self.below(at_most)).map(|_| *self.pick(&SqlType::ALL)).collect()
    }
}
