//! Comments on objects: a row for each object that has any, behind its descriptor's.

use crate::error::SqlError;
use crate::kv;
use meridian_txn::{Lock, Transaction};
use minicbor::{Decode, Encode};

/// The comments on an object and its columns.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(crate) struct Comments {
    #[n(0)]
    all: Vec<Comment>,
    /// The comments on a table's indexes and constraints.
    #[n(1)]
    #[cbor(default)]
    parts: Vec<PartComment>,
}

/// A part of a table with a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Part {
    #[n(0)]
    Index,
    #[n(1)]
    Constraint,
}

/// A comment on an index or a constraint, by its name: a truncation gives an index another id.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct PartComment {
    #[n(0)]
    part: Part,
    #[n(1)]
    name: String,
    #[n(2)]
    text: String,
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Comment {
    /// The number of the column, from 1; 0 for the object itself.
    #[n(0)]
    column: u32,
    #[n(1)]
    text: String,
}

impl Comments {
    /// Sets or removes a comment. Returns true if there was one.
    pub(crate) fn set(&mut self, column: u32, text: Option<&str>) -> bool {
        let before = self.all.len();
        self.all.retain(|comment| comment.column != column);
        let was_there = self.all.len() < before;
        self.all.extend(text.map(|text| Comment { column, text: text.to_owned() }));
        was_there
    }

    /// Returns the comment on a column, or on the object itself for 0.
    pub(crate) fn get(&self, column: u32) -> Option<&str> {
        let found = self.all.iter().find(|comment| comment.column == column);
        found.map(|comment| comment.text.as_str())
    }

    /// Sets or removes the comment on a part. Returns true if there was one.
    pub(crate) fn set_part(&mut self, part: Part, name: &str, text: Option<&str>) -> bool {
        let before = self.parts.len();
        self.parts.retain(|comment| comment.part != part || comment.name != name);
        let was_there = self.parts.len() < before;
        let comment = |text: &str| PartComment { part, name: name.into(), text: text.into() };
        self.parts.extend(text.map(comment));
        was_there
    }

    /// Returns the comment on a part.
    pub(crate) fn get_part(&self, part: Part, name: &str) -> Option<&str> {
        let found = self.parts.iter().find(|it| it.part == part && it.name == name);
        found.map(|comment| comment.text.as_str())
    }

    /// Gives the parts of a name another one. Returns true if there were comments on them.
    pub(crate) fn rename_parts(&mut self, old: &str, new: &str) -> bool {
        let mut renamed = false;
        for comment in self.parts.iter_mut().filter(|comment| comment.name == old) {
            comment.name = new.to_owned();
            renamed = true;
        }
        renamed
    }

    /// Returns the numbers of the columns and their comments.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.all.iter().map(|comment| (comment.column, comment.text.as_str()))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Comments, SqlError> {
        minicbor::decode(bytes).map_err(|e| SqlError::corrupted(format!("comments: {e}")))
    }
}

/// Returns the comments on an object, to change them.
pub(crate) async fn comments(txn: &mut dyn Transaction, id: u32) -> Result<Comments, SqlError> {
    match txn.get(&kv::comments_key(id), Lock::Exclusive).await? {
        Some(value) => Comments::decode(&value.0),
        None => Ok(Comments::default()),
    }
}

/// Writes the comments on an object.
pub(crate) fn put_comments(
    txn: &mut dyn Transaction,
    id: u32,
    comments: &Comments,
) -> Result<(), SqlError> {
    let is_empty = comments.all.is_empty() && comments.parts.is_empty();
    let bytes = || minicbor::to_vec(comments).expect("invariant: writing to memory does not fail");
    let value = (!is_empty).then(|| kv::to_value(bytes()));
    Ok(txn.put(kv::comments_key(id), value)?)
}
