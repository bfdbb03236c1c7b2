//! CREATE TABLE AS: a new table of a query's columns, and an INSERT of its rows, in one
//! transaction.

use crate::catalog::Resolver;
use crate::compile::{self, Compiled};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::names::{self, Qualified};
use crate::notice;
use crate::parse::{self, Parsed, is_word};
use crate::parts;
use crate::portal::Portal;
use crate::response::{Column, Response};
use crate::session::Session;
use crate::temporary;
use crate::types::Type;
use sqlparser::ast::{self, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// The clauses of CREATE TABLE AS that the parser does not know.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableAs {
    /// The names of the first columns, instead of the query's.
    pub(crate) names: Vec<ast::Ident>,
    /// True for WITH NO DATA.
    pub(crate) is_empty: bool,
}

/// Cuts the names of the columns, and WITH [NO] DATA, from CREATE TABLE AS. Fails with 0A000 if
/// EXECUTE is behind AS.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Result<TableAs, SqlError> {
    let mut found = TableAs::default();
    let Some((name, query)) = places(tokens) else { return Ok(found) };
    if is_word(&tokens[query], "execute") {
        let refused = SqlError::unsupported("CREATE TABLE AS EXECUTE");
        return Err(refused.at(names::place(tokens[query].span.start)));
    }
    let words = data_words(tokens);
    found.is_empty = words == 3;
    tokens.truncate(tokens.len() - words);
    let is = |at: usize, token: &Token| tokens.get(at).is_some_and(|it| it.token == *token);
    let mut at = name + 1;
    while is(at, &Token::Period) {
        at += 2;
    }
    let open = at;
    if !is(open, &Token::LParen) {
        return Ok(found);
    }
    let mut names = Vec::new();
    while let Some(Token::Word(word)) = tokens.get(at + 1).map(|it| &it.token) {
        names.push(word.to_ident(tokens[at + 1].span));
        at += 2;
        if is(at, &Token::RParen) {
            tokens.drain(open..=at);
            found.names = names;
            break;
        }
        if !is(at, &Token::Comma) {
            break;
        }
    }
    Ok(found)
}

/// Returns the number of words of WITH DATA or WITH NO DATA at the end; 0 if there is neither.
pub(crate) fn data_words(tokens: &[TokenWithSpan]) -> usize {
    let ends = |words: &[&str]| {
        let rest = tokens.len().checked_sub(words.len()).map(|from| &tokens[from..]);
        rest.is_some_and(|rest| rest.iter().zip(words).all(|(token, word)| is_word(token, word)))
    };
    // Behind AS, the word is a name.
    if ends(&["with", "no", "data"]) {
        return 3;
    }
    let is_clause = ends(&["with", "data"]) && !ends(&["as", "with", "data"]);
    if is_clause { 2 } else { 0 }
}

/// Returns the places of the table's name and of the query in CREATE TABLE AS, perhaps behind
/// EXPLAIN.
fn places(tokens: &[TokenWithSpan]) -> Option<(usize, usize)> {
    let is = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(token, word));
    let create = match tokens.first()? {
        first if is_word(first, "create") => 0,
        first if is_word(first, "explain") => {
            tokens.iter().position(|token| is_word(token, "create"))?
        }
        _ => return None,
    };
    let table = (create + 1..create + 4).find(|at| is(*at, "table"))?;
    let exists = is(table + 1, "if") && is(table + 2, "not") && is(table + 3, "exists");
    let name = table + if exists { 4 } else { 1 };
    let begins = |at: usize| {
        let words = ["select", "with", "values", "table", "execute"];
        words.iter().any(|word| is(at, word))
            || tokens.get(at).is_some_and(|token| token.token == Token::LParen)
    };
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(name) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_word(token, "as") && begins(at + 1) => {
                return Some((name, at + 1));
            }
            _ => {}
        }
    }
    None
}

/// Returns the query of CREATE TABLE AS.
pub(crate) fn query_of(statement: &Statement) -> Option<(&ast::CreateTable, &ast::Query)> {
    match statement {
        Statement::CreateTable(create) => Some((create, create.query.as_deref()?)),
        _ => None,
    }
}

/// Returns the definition of a column of a query's result.
fn definition(column: &Column) -> Result<ast::ColumnDef, SqlError> {
    if column.ty.is_anonymous() {
        let message = format!("column \"{}\" has pseudo-type {}", column.name, column.ty);
        return Err(SqlError::new(state::INVALID_TABLE, message));
    }
    let name = ast::Ident::with_quote('"', &*column.name);
    if let Some(domain) = column.domain {
        let domain = ast::ObjectName::from(vec![names::reference(domain.id())]);
        let data_type = ast::DataType::Custom(domain, Vec::new());
        return Ok(ast::ColumnDef { name, data_type, options: Vec::new() });
    }
    let data_type = parse::name_of_type(column.ty);
    let unknown = || SqlError::unsupported(format!("the type {}", column.ty));
    let data_type = data_type.ok_or_else(unknown)?;
    Ok(ast::ColumnDef { name, data_type, options: Vec::new() })
}

/// Returns the statement that inserts the rows of a query. A WITH that changes data stands before
/// INSERT: there it is at the top level.
fn filling(mut insert: ast::Insert, mut query: ast::Query) -> Statement {
    let with = query.with.take_if(|with| parts::is_modifying(with));
    insert.source = Some(Box::new(query));
    let insert = Statement::Insert(insert);
    if with.is_none() {
        return insert;
    }
    Statement::Query(Box::new(ast::Query {
        with,
        body: Box::new(ast::SetExpr::Insert(insert)),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }))
}

/// Makes the response of SELECT INTO of that of INSERT.
fn selected(response: Response) -> Response {
    match response {
        Response::Complete(tag) => Response::Complete(tag.replace("INSERT 0", "SELECT")),
        other => other,
    }
}

impl Session {
    /// Runs CREATE TABLE AS, and CREATE MATERIALIZED VIEW.
    pub(crate) async fn create_table_as(
        &mut self,
        compiled: &Compiled,
        params: Arc<[Datum]>,
    ) -> Result<Response, SqlError> {
        let Some((create, query)) = query_of(&compiled.source.statement) else {
            return Err(SqlError::unsupported("this form of CREATE TABLE AS"));
        };
        if !create.columns.is_empty() || !create.constraints.is_empty() {
            return Err(SqlError::unsupported("CREATE TABLE AS with a list of columns"));
        }
        let is_materialized = compiled.source.materialized.is_some();
        if is_materialized && query.with.as_ref().is_some_and(parts::is_modifying) {
            let message = "materialized views must not use data-modifying statements in WITH";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        }
        let tag = match is_materialized {
            true => "CREATE MATERIALIZED VIEW",
            false => "CREATE TABLE AS",
        };
        let types: Arc<[Option<Type>]> = compiled.params.iter().map(|ty| Some(*ty)).collect();
        let parsed = |statement: Statement| {
            let mut parsed = Parsed::clone(&compiled.source);
            parsed.statement = statement;
            Arc::new(parsed)
        };
        let of_query = parsed(Statement::Query(Box::new(query.clone())));
        let columns = self.compile(of_query, types.clone()).await?.columns.clone();
        let mut columns = columns.map_or_else(Vec::new, |columns| columns.to_vec());
        let TableAs { names, is_empty } = &compiled.source.table_as;
        if names.len() > columns.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(state::SYNTAX, message));
        }
        for (column, name) in columns.iter_mut().zip(names) {
            column.name = names::fold(name);
        }
        let mut alone = create.clone();
        alone.query = None;
        alone.columns = columns.iter().map(definition).collect::<Result<_, _>>()?;
        let relation = self.place(&names::relation(&create.name)?, create.temporary).await?;
        if alone.if_not_exists && self.has_relation(&relation).await? {
            self.notify(notice::already_exists(&relation.name));
            return Ok(Response::Complete(tag.into()));
        }
        // A replay must not fill a table that another transaction has created meanwhile.
        alone.if_not_exists = false;
        let made = self.compile(parsed(Statement::CreateTable(alone)), Arc::from([])).await?;
        let mut portal = Portal::new(made, Arc::from([]));
        Box::pin(self.run(&mut portal, usize::MAX)).await?;
        if *is_empty {
            self.newest = None;
            return Ok(Response::Complete(tag.into()));
        }
        if is_materialized {
            let response = self.fill(&relation).await?;
            self.newest = None;
            return Ok(selected(response));
        }
        let mut insert = parse::statements("INSERT INTO t VALUES (1)")?;
        let insert = match insert.pop().map(|parsed| parsed.statement.clone()) {
            Some(Statement::Insert(mut insert)) => {
                let name = relation.schema.iter().chain([&relation.name]);
                let name = name.map(|part| ast::Ident::with_quote('"', part));
                insert.table =
                    ast::TableObject::TableName(ast::ObjectName::from(name.collect::<Vec<_>>()));
                filling(insert, query.clone())
            }
            _ => return Err(SqlError::new(state::SYNTAX, "CREATE TABLE AS needs a query")),
        };
        let filled = self.compile(parsed(insert), types).await?;
        let mut portal = Portal::new(filled, params);
        let response = Box::pin(self.run(&mut portal, usize::MAX)).await?;
        // The response is not that of the INSERT: a replay that finds other rows must fail.
        self.newest = None;
        Ok(selected(response))
    }

    /// Returns the name of a new table with its schema: in the search path, a temporary table may
    /// hide it.
    async fn place(&mut self, name: &Qualified, is_temporary: bool) -> Result<Qualified, SqlError> {
        let (path, mut own) = (self.facts.search_path(), None);
        let schema = match &name.schema {
            Some(schema) => schema.clone(),
            None if is_temporary => temporary::ALIAS.to_owned(),
            None => {
                let (txn, _) = compile::reader(&self.engine, self.work.as_mut(), &mut own).await?;
                Resolver::new(&path).first(txn).await?.1.to_owned()
            }
        };
        Ok(Qualified { schema: Some(schema), name: name.name.clone() })
    }

    /// True if there is a relation of a name with its schema.
    async fn has_relation(&mut self, name: &Qualified) -> Result<bool, SqlError> {
        let (path, mut own) = (self.facts.search_path(), None);
        let (txn, _) = compile::reader(&self.engine, self.work.as_mut(), &mut own).await?;
        Ok(Resolver::new(&path).relation(txn, name).await?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_cut() {
        for (text, names, is_empty) in [
            ("create table t (a, \"B\") as select 1, 2 with no data", "a,\"B\"", true),
            ("create table if not exists s.t (a) with (fillfactor = 9) as table u", "a", false),
            ("explain create table t as (select 1) with data", "", false),
            ("create table t as select 1 as with", "", false),
        ] {
            let parsed = parse::statements(text).unwrap();
            let found = &parsed[0].table_as;
            let shown: Vec<String> = found.names.iter().map(ToString::to_string).collect();
            assert_eq!((shown.join(","), found.is_empty), (names.to_owned(), is_empty), "{text}");
        }
        assert!(parse::statements("create table t as execute p").is_err());
        assert!(parse::statements("create table t (a, b)").is_err());
    }
}
