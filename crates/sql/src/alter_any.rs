//! ALTER … OWNER TO and SET SCHEMA, which the parser knows for few kinds of objects: cut from the
//! tokens of any.

use crate::catalog::Object;
use crate::names;
use crate::parse::is_word;
use sqlparser::ast::{Ident, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The kinds of objects that have an owner. Schemas and databases have no schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    View,
    MaterializedView,
    Sequence,
    Index,
    Type,
    Domain,
    Schema,
    Database,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Table,
        Kind::View,
        Kind::MaterializedView,
        Kind::Sequence,
        Kind::Index,
        Kind::Type,
        Kind::Domain,
        Kind::Schema,
        Kind::Database,
    ];

    /// True if the statement may change a relation: ALTER TABLE changes any.
    pub(crate) fn fits(self, relation: &Object) -> bool {
        match self {
            Kind::Table => true,
            Kind::View => matches!(relation, Object::View(_)),
            Kind::MaterializedView => relation.kind() == self.word(),
            _ => matches!(relation, Object::Sequence(_)),
        }
    }

    /// Returns the key words of the statement, in lower case.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::View => "view",
            Kind::MaterializedView => "materialized view",
            Kind::Sequence => "sequence",
            Kind::Index => "index",
            Kind::Type => "type",
            Kind::Domain => "domain",
            Kind::Schema => "schema",
            Kind::Database => "database",
        }
    }
}

/// A change that objects of many kinds share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterAny {
    pub(crate) kind: Kind,
    pub(crate) if_exists: bool,
    pub(crate) name: ObjectName,
    pub(crate) change: Change,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Owner(Ident),
    Schema(Ident),
}

/// Returns the name of a role; `None` for the session's user.
pub(crate) fn role(owner: &Ident) -> Option<String> {
    let name = names::fold(owner);
    let is_own = ["current_user", "current_role", "session_user"].contains(&name.as_str());
    (owner.quote_style.is_some() || !is_own).then_some(name)
}

/// Cuts ALTER … OWNER TO and SET SCHEMA. The rest is a stand-in that the parser knows.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Option<AlterAny> {
    let is = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(token, word));
    let end = tokens.len().checked_sub(3)?;
    let has_words =
        |kind: &Kind| kind.word().split(' ').enumerate().all(|(at, word)| is(at + 1, word));
    let kind = Kind::ALL.into_iter().find(has_words)?;
    let behind = 1 + kind.word().split(' ').count();
    let to_owner = is(end, "owner") && is(end + 1, "to");
    let to_schema = is(end, "set") && is(end + 1, "schema");
    if !is(0, "alter") || !(to_owner || to_schema) {
        return None;
    }
    let Token::Word(last) = &tokens[end + 2].token else { return None };
    let last = last.to_ident(tokens[end + 2].span);
    let change = if to_owner { Change::Owner(last) } else { Change::Schema(last) };
    let if_exists = is(behind, "if") && is(behind + 1, "exists");
    if if_exists && matches!(kind, Kind::Type | Kind::Schema | Kind::Database) {
        return None;
    }
    let mut from = if if_exists { behind + 2 } else { behind };
    from += usize::from(kind == Kind::Table && is(from, "only"));
    let name = tokens.get(from..end)?;
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(name.to_vec());
    let Ok(name) = parser.parse_object_name(false) else { return None };
    if parser.peek_token().token != Token::EOF {
        return None;
    }
    let span = tokens[0].span;
    let words = ["create", "sequence", "s"].map(Token::make_keyword);
    tokens.clear();
    tokens.extend(words.map(|token| TokenWithSpan::new(token, span)));
    Some(AlterAny { kind, if_exists, name, change })
}
