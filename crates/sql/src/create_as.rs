//! CREATE TABLE AS: a new table of a query's columns, and an INSERT of its rows, in one
//! transaction.

use crate::catalog::{self, Resolver};
use crate::compile::{self, Compiled};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::names::{self, Qualified};
use crate::parse::{self, Parsed};
use crate::response::{Column, Response};
use crate::run::Portal;
use crate::session::Session;
use crate::types::Type;
use sqlparser::ast::{self, Statement};
use std::sync::Arc;

/// Returns the query of CREATE TABLE AS.
pub(crate) fn query_of(statement: &Statement) -> Option<(&ast::CreateTable, &ast::Query)> {
    match statement {
        Statement::CreateTable(create) => Some((create, create.query.as_deref()?)),
        _ => None,
    }
}

/// Returns the definition of a column of a query's result.
fn definition(column: &Column) -> Result<ast::ColumnDef, SqlError> {
    let name = ast::Ident::with_quote('"', &*column.name);
    let shown = match column.ty {
        // Its length is not a part of its name.
        Type::Char(0) => "bpchar".to_owned(),
        ty => ty.to_string(),
    };
    let data_type = parse::data_type(&shown);
    let data_type = data_type.ok_or_else(|| SqlError::unsupported(format!("the type {shown}")))?;
    Ok(ast::ColumnDef { name, data_type, options: Vec::new() })
}

impl Session {
    /// Runs CREATE TABLE AS.
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
        let types: Arc<[Option<Type>]> = compiled.params.iter().map(|ty| Some(*ty)).collect();
        let parsed = |statement: Statement| {
            let mut parsed = Parsed::clone(&compiled.source);
            parsed.statement = statement;
            Arc::new(parsed)
        };
        let of_query = parsed(Statement::Query(Box::new(query.clone())));
        let columns = self.compile(of_query, types.clone()).await?.columns.clone();
        let columns = columns.unwrap_or_else(|| Arc::from([]));
        let mut alone = create.clone();
        alone.query = None;
        alone.columns = columns.iter().map(definition).collect::<Result<_, _>>()?;
        if alone.if_not_exists && self.has_relation(&names::relation(&create.name)?).await? {
            return Ok(Response::Complete("CREATE TABLE AS".into()));
        }
        // A replay must not fill a table that another transaction has created meanwhile.
        alone.if_not_exists = false;
        let made = self.compile(parsed(Statement::CreateTable(alone)), Arc::from([])).await?;
        let mut portal = Portal::new(made, Arc::from([]));
        Box::pin(self.run(&mut portal, usize::MAX)).await?;
        let mut insert = parse::statements("INSERT INTO t VALUES (1)")?;
        let insert = match insert.pop().map(|parsed| parsed.statement.clone()) {
            Some(Statement::Insert(mut insert)) => {
                insert.table = ast::TableObject::TableName(create.name.clone());
                insert.source = Some(Box::new(query.clone()));
                Statement::Insert(insert)
            }
            _ => return Err(SqlError::new(state::SYNTAX, "CREATE TABLE AS needs a query")),
        };
        let filled = self.compile(parsed(insert), types).await?;
        let mut portal = Portal::new(filled, params);
        let response = Box::pin(self.run(&mut portal, usize::MAX)).await?;
        // The response is not that of the INSERT: a replay that finds other rows must fail.
        self.newest = None;
        Ok(match response {
            Response::Complete(tag) => Response::Complete(tag.replace("INSERT 0", "SELECT")),
            other => other,
        })
    }

    /// True if there is a relation of a name.
    async fn has_relation(&mut self, name: &Qualified) -> Result<bool, SqlError> {
        let (path, mut own) = (self.facts.search_path(), None);
        let (txn, _) = compile::reader(&self.engine, self.work.as_mut(), &mut own).await?;
        let schema = Resolver::new(&path).place(txn, name).await?;
        Ok(catalog::relation_in(txn, schema, &name.name).await?.is_some())
    }
}
