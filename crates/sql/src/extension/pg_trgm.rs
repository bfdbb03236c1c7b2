//! `pg_trgm`: similarities of texts, which the folder `trigram` computes.

use super::Extension;
use crate::array::Array;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::function::of::*;
use crate::function::{Function, Out, Value, text_at, wrong_type};
use crate::limits;
use crate::trigram::{self, Threshold, strict_word_similarity, trigrams, word_similarity};
use crate::types::Type;
use std::sync::Arc;

pub(super) static EXTENSION: Extension = Extension {
    name: "pg_trgm",
    version: "1.6",
    comment: "text similarity measurement and index searching based on trigrams",
    fixed_types: &[],
    types: &[],
    functions: FUNCTIONS,
    refused: &[],
};

/// A similarity of a text to another one.
type Similarity = fn(&str, &str) -> f32;

/// A function that returns a similarity.
const fn similar(name: &'static str, kernel: Value) -> Function {
    Function::new(name, &[TEXT, TEXT], A_FLOAT4, kernel)
}

/// A function that is true if a similarity reaches a threshold.
const fn reaches(name: &'static str, kernel: Value) -> Function {
    Function::new(name, &[TEXT, TEXT], A_BOOL, kernel).stable()
}

const FUNCTIONS: &[Function] = &[
    similar("similarity", |args, scope| of(args, scope, trigram::similarity)),
    similar("word_similarity", |args, scope| of(args, scope, word_similarity)),
    similar("strict_word_similarity", |args, scope| of(args, scope, strict_word_similarity)),
    similar("similarity_dist", distance),
    similar("<->", distance),
    similar("word_similarity_dist_op", word_distance),
    similar("<<->", word_distance),
    similar("word_similarity_dist_commutator_op", word_distance_turned),
    similar("<->>", word_distance_turned),
    similar("strict_word_similarity_dist_op", strict_distance),
    similar("<<<->", strict_distance),
    similar("strict_word_similarity_dist_commutator_op", strict_distance_turned),
    similar("<->>>", strict_distance_turned),
    reaches("similarity_op", is_similar),
    reaches("%", is_similar),
    reaches("word_similarity_op", is_similar_word),
    reaches("<%", is_similar_word),
    reaches("word_similarity_commutator_op", is_similar_word_turned),
    reaches("%>", is_similar_word_turned),
    reaches("strict_word_similarity_op", is_strictly_similar),
    reaches("<<%", is_strictly_similar),
    reaches("strict_word_similarity_commutator_op", is_strictly_similar_turned),
    reaches("%>>", is_strictly_similar_turned),
    Function::new("show_trgm", &[TEXT], Out::Of(Type::Text.array()), show),
    Function::new("show_limit", &[], A_FLOAT4, |_, scope| {
        Ok(Datum::Float4(threshold(scope, Threshold::Similarity)? as f32))
    })
    .stable(),
    Function::new("set_limit", &[FLOAT4], A_FLOAT4, set_limit).volatile(),
];

fn similarity_of(
    args: &[Datum],
    scope: &Scope<'_>,
    similarity: Similarity,
) -> Result<f32, SqlError> {
    let (left, right) = (text_at(args, 0)?, text_at(args, 1)?);
    let bytes = left.len() + right.len();
    limits::check_room(bytes.saturating_mul(trigram::BYTES_PER_BYTE), scope)?;
    Ok(similarity(left, right))
}

fn of(args: &[Datum], scope: &Scope<'_>, similarity: Similarity) -> Result<Datum, SqlError> {
    similarity_of(args, scope, similarity).map(Datum::Float4)
}

/// Returns 1 less the similarity.
fn far(args: &[Datum], scope: &Scope<'_>, similarity: Similarity) -> Result<Datum, SqlError> {
    Ok(Datum::Float4(1.0 - similarity_of(args, scope, similarity)?))
}

fn distance(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    far(args, scope, trigram::similarity)
}

fn word_distance(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    far(args, scope, word_similarity)
}

fn word_distance_turned(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    far(args, scope, |within, text| word_similarity(text, within))
}

fn strict_distance(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    far(args, scope, strict_word_similarity)
}

fn strict_distance_turned(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    far(args, scope, |within, text| strict_word_similarity(text, within))
}

/// Returns a threshold of the session.
fn threshold(scope: &Scope<'_>, of: Threshold) -> Result<f64, SqlError> {
    of.parse(scope.session.settings.get(of.setting()).unwrap_or_default())
}

/// True if a similarity reaches its threshold.
fn is_near(
    args: &[Datum],
    scope: &Scope<'_>,
    similarity: Similarity,
    of: Threshold,
) -> Result<Datum, SqlError> {
    let found = f64::from(similarity_of(args, scope, similarity)?);
    Ok(Datum::Bool(found >= threshold(scope, of)?))
}

fn is_similar(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    is_near(args, scope, trigram::similarity, Threshold::Similarity)
}

fn is_similar_word(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    is_near(args, scope, word_similarity, Threshold::WordSimilarity)
}

fn is_similar_word_turned(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let turned: Similarity = |within, text| word_similarity(text, within);
    is_near(args, scope, turned, Threshold::WordSimilarity)
}

fn is_strictly_similar(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    is_near(args, scope, strict_word_similarity, Threshold::StrictWordSimilarity)
}

fn is_strictly_similar_turned(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let turned: Similarity = |within, text| strict_word_similarity(text, within);
    is_near(args, scope, turned, Threshold::StrictWordSimilarity)
}

fn show(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let text = text_at(args, 0)?;
    limits::check_room(text.len().saturating_mul(size_of::<Datum>()), scope)?;
    let shown = trigrams(text).iter().map(|trigram| Datum::text(trigram.to_string())).collect();
    Ok(Datum::Array(Arc::new(Array::of(Type::Text, shown)?)))
}

fn set_limit(args: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    let [limit @ Datum::Float4(number)] = args else { return Err(wrong_type()) };
    let text = limit.to_text(Type::Float4).unwrap_or_default();
    scope.session.settings.ask(Threshold::Similarity.setting(), Some(&text), false)?;
    Ok(Datum::Float4(*number))
}
