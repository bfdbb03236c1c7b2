//! Materialized views: tables that hold the rows which a query had.
//!
//! Such a table is read, and gets indexes, as any other. REFRESH gives it new storage and fills
//! that, in one transaction: readers see the rows from before, or those after it.

use crate::catalog::{self, Table};
use crate::compile::Compiled;
use crate::error::{SqlError, state};
use crate::names::{self, Qualified};
use crate::parse::{self, Parsed, is_word};
use crate::portal::Portal;
use crate::response::Response;
use crate::session::Session;
use crate::view::View;
use minicbor::{Decode, Encode};
use sqlparser::ast::{self, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// The query of a materialized view.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Materialized {
    /// The text, as that of a view.
    #[n(0)]
    pub(crate) text: String,
    /// The ids of the objects that the query names.
    #[n(1)]
    pub(crate) reads: Vec<u32>,
    /// True if the table has the rows of the query: not so behind WITH NO DATA.
    #[n(2)]
    pub(crate) is_populated: bool,
}

impl Table {
    /// Returns the query of a materialized view as a view.
    pub(crate) fn as_view(&self) -> Option<View> {
        let query = self.query.as_ref()?;
        let name = (self.schema, self.name.clone());
        let (columns, text) = (self.columns.clone(), query.text.clone());
        let reads = query.reads.clone();
        let mut view = View::new(self.id, name, self.version, columns, text, reads);
        view.is_materialized = true;
        Some(view)
    }

    /// Returns the words for its kind.
    pub(crate) fn kind(&self) -> &'static str {
        if self.query.is_some() { "materialized view" } else { "table" }
    }

    /// Fails with 55000 if it is a materialized view that has no rows yet.
    pub(crate) fn check_populated(&self) -> Result<(), SqlError> {
        if self.query.as_ref().is_none_or(|query| query.is_populated) {
            return Ok(());
        }
        let message = format!("materialized view \"{}\" has not been populated", self.name);
        Err(SqlError::new(state::NOT_IN_STATE, message)
            .hint("Use the REFRESH MATERIALIZED VIEW command."))
    }
}

/// A statement about a materialized view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MaterializedStatement {
    /// It is parsed as CREATE TABLE AS.
    Create,
    /// It is parsed as ALTER TABLE.
    Alter,
    Refresh(Refresh),
    /// The first step of REFRESH, which gives the view new storage.
    Renew(Refresh),
}

/// REFRESH MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refresh {
    pub(crate) name: ast::ObjectName,
    pub(crate) concurrently: bool,
    /// False for WITH NO DATA.
    pub(crate) with_data: bool,
}

/// Makes CREATE TABLE AS or ALTER TABLE of a statement about a materialized view; of REFRESH, which
/// the parser does not know, a stand-in.
pub(crate) fn cut(
    tokens: &mut Vec<TokenWithSpan>,
) -> Result<Option<MaterializedStatement>, SqlError> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    if !is(1, "materialized") || !is(2, "view") {
        return Ok(None);
    }
    let span = tokens[1].span;
    let word = |word: &str| TokenWithSpan::new(Token::make_keyword(word), span);
    let statement = match () {
        () if is(0, "create") => MaterializedStatement::Create,
        () if is(0, "alter") => MaterializedStatement::Alter,
        () if is(0, "refresh") => {
            let refresh = refresh(&tokens[3..])?;
            *tokens = ["create", "sequence", "s"].map(word).into();
            return Ok(Some(MaterializedStatement::Refresh(refresh)));
        }
        () => return Ok(None),
    };
    tokens.splice(1..3, [word("table")]);
    Ok(Some(statement))
}

/// Reads what is behind REFRESH MATERIALIZED VIEW.
fn refresh(tokens: &[TokenWithSpan]) -> Result<Refresh, SqlError> {
    let concurrently = tokens.first().is_some_and(|token| is_word(token, "concurrently"));
    let dialect = PostgreSqlDialect {};
    let rest = tokens[usize::from(concurrently)..].to_vec();
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(rest);
    let wrong = |parser: &Parser<'_>| match &parser.peek_token() {
        token if token.token == Token::EOF => {
            SqlError::new(state::SYNTAX, "syntax error at end of input")
        }
        token => {
            let message = format!("syntax error at or near \"{}\"", token.token);
            SqlError::new(state::SYNTAX, message).at(names::place(token.span.start))
        }
    };
    if !matches!(parser.peek_token().token, Token::Word(_)) {
        return Err(wrong(&parser));
    }
    let name = parser.parse_object_name(false).map_err(|_| wrong(&parser))?;
    let skip = |parser: &mut Parser<'_>, word: &str| {
        let found = is_word(&parser.peek_token(), word);
        if found {
            parser.next_token();
        }
        found
    };
    let mut with_data = true;
    if skip(&mut parser, "with") {
        with_data = !skip(&mut parser, "no");
        if !skip(&mut parser, "data") {
            return Err(wrong(&parser));
        }
    }
    if parser.peek_token().token != Token::EOF {
        return Err(wrong(&parser));
    }
    Ok(Refresh { name, concurrently, with_data })
}

impl Session {
    /// Runs REFRESH MATERIALIZED VIEW.
    pub(crate) async fn refresh(
        &mut self,
        compiled: &Compiled,
        refresh: &Refresh,
    ) -> Result<Response, SqlError> {
        let mut parsed = Parsed::clone(&compiled.source);
        parsed.materialized = Some(MaterializedStatement::Renew(refresh.clone()));
        let renewed = self.compile(Arc::new(parsed), Arc::from([])).await?;
        let mut portal = Portal::new(renewed, Arc::from([]));
        Box::pin(self.run(&mut portal, usize::MAX)).await?;
        if refresh.with_data {
            self.fill(&names::relation(&refresh.name)?).await?;
        }
        self.newest = None;
        Ok(Response::Complete("REFRESH MATERIALIZED VIEW".into()))
    }

    /// Writes the rows of its query into a materialized view, whose storage is empty. Returns the
    /// response of the INSERT.
    pub(crate) async fn fill(&mut self, name: &Qualified) -> Result<Response, SqlError> {
        // The target is the table; the source is its query.
        let mut insert = parse::statements("INSERT INTO t SELECT * FROM q")?;
        let mut parsed = insert.pop().ok_or_else(|| SqlError::corrupted("a fixed statement"))?;
        if let Statement::Insert(insert) = &mut parsed.statement {
            let filled = names::filled(name);
            insert.table = ast::TableObject::TableName(filled.clone());
            if let Some(query) = &mut insert.source
                && let ast::SetExpr::Select(select) = &mut *query.body
                && let Some(from) = select.from.first_mut()
                && let ast::TableFactor::Table { name, .. } = &mut from.relation
            {
                *name = filled;
            }
        }
        let filled = self.compile(Arc::new(parsed), Arc::from([])).await;
        let filled = filled.map_err(SqlError::unplaced)?;
        let mut portal = Portal::new(filled, Arc::from([]));
        let response = Box::pin(self.run(&mut portal, usize::MAX)).await;
        response.map_err(SqlError::unplaced)
    }
}

/// Returns 42P01 in the words of REFRESH.
pub(crate) fn missing(name: &Qualified) -> SqlError {
    let message = format!("relation \"{name}\" does not exist");
    SqlError::new(state::UNDEFINED_TABLE, message)
}

/// Returns the error of another kind of relation.
pub(crate) fn not_materialized(name: &str) -> SqlError {
    catalog::not_a("materialized view", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_about_materialized_views_are_those_of_tables() {
        let parsed = |text: &str| parse::statements(text).expect(text).remove(0);
        let create = parsed("create materialized view if not exists s.m (a) as select 1 with data");
        assert_eq!(create.materialized, Some(MaterializedStatement::Create));
        assert_eq!(create.view_text.as_deref(), Some("select 1"));
        let alter = parsed("alter materialized view m rename to n");
        assert_eq!(alter.materialized, Some(MaterializedStatement::Alter));
        let refresh = parsed("refresh materialized view concurrently s.m with no data");
        let name = ast::ObjectName::from(vec!["s".into(), "m".into()]);
        let wanted = Refresh { name, concurrently: true, with_data: false };
        assert_eq!(refresh.materialized, Some(MaterializedStatement::Refresh(wanted)));
        for wrong in ["", " m, n", " m with", " m with no", " concurrently"] {
            assert!(parse::statements(&format!("refresh materialized view{wrong}")).is_err());
        }
    }
}
