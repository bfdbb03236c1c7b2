//! The outputs of SELECT and RETURNING.

use super::{Binder, Typed};
use crate::dialect;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::heading::heading;
use crate::logical::Wants;
use crate::names;
use crate::response::Column;
use crate::system;
use crate::types::Type;
use crate::view::Mention;
use sqlparser::ast::{self, SelectItem};

/// An output: an expression, whose type may be undetermined, and its name.
pub(crate) struct Item {
    pub(crate) typed: Typed,
    pub(crate) name: String,
}

impl Item {
    /// Returns the column of a result.
    pub(crate) fn column(&self, binder: &Binder) -> Column {
        let mut column = Column::new(self.name.clone(), self.typed.ty.unwrap_or(Type::Text));
        column.domain = self.typed.domain;
        if let Expr::Column(id) = self.typed.expr
            && id < binder.columns.len()
        {
            (column.table, column.number) = binder.columns[id].origin;
        }
        column
    }
}

/// Binds outputs, with their names.
pub(crate) fn bind_items(binder: &mut Binder, items: &[SelectItem]) -> Result<Vec<Item>, SqlError> {
    let mut bound = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) if let Some(row) = dialect::row_of_all_fields(expr) => {
                if binder.mentions.is_some() {
                    return Err(SqlError::unsupported(format!("the output {expr} in a view")));
                }
                let fields = binder.all_fields(&row)?;
                bound.extend(fields.into_iter().map(|(name, typed)| Item { typed, name }));
            }
            SelectItem::UnnamedExpr(expr) => {
                let typed = binder.bind(expr)?;
                let name = heading(expr, binder.subquery_name(&typed.expr));
                let name = binder.heading_of(name);
                bound.push(Item { typed, name });
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                bound.push(Item { typed: binder.bind(expr)?, name: names::fold(alias) });
            }
            SelectItem::Wildcard(options) => {
                plain(options)?;
                if binder.relations().is_empty() {
                    return Err(SqlError::new(
                        state::SYNTAX,
                        "SELECT * with no tables specified is not valid",
                    ));
                }
                binder.star(None, options, &mut bound);
            }
            SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => {
                plain(options)?;
                let alias = names::relation(name)?.name;
                let is_it = |relation: &super::Relation| relation.alias.as_deref() == Some(&*alias);
                if !binder.relations().iter().any(is_it) {
                    let message = format!("missing FROM-clause entry for table \"{alias}\"");
                    return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                }
                binder.star(Some(&alias), options, &mut bound);
            }
            other => return Err(SqlError::unsupported(format!("the output {other}"))),
        }
    }
    Ok(bound)
}

fn plain(options: &ast::WildcardAdditionalOptions) -> Result<(), SqlError> {
    let ast::WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    let plain = opt_ilike.is_none()
        && opt_exclude.is_none()
        && opt_except.is_none()
        && opt_replace.is_none()
        && opt_rename.is_none()
        && opt_alias.is_none();
    if plain { Ok(()) } else { Err(SqlError::unsupported(format!("the output *{options}"))) }
}

impl Binder {
    /// Returns the name of the output of a scalar subquery, perhaps inside casts and CASE.
    fn subquery_name(&self, expr: &Expr) -> Option<&str> {
        match expr {
            Expr::Subquery(subquery) => match subquery.wants {
                Wants::Value(id) => self.subquery_names.get(&id).map(String::as_str),
                _ => None,
            },
            Expr::Cast(inner, ..) | Expr::Domain(inner, _) => self.subquery_name(inner),
            Expr::Case { otherwise, .. } => self.subquery_name(otherwise),
            _ => None,
        }
    }

    /// Adds the columns of all relations of the innermost query, or of one.
    fn star(
        &mut self,
        alias: Option<&str>,
        options: &ast::WildcardAdditionalOptions,
        out: &mut Vec<Item>,
    ) {
        let mut names = Vec::new();
        for relation in self.relations() {
            if alias.is_some() && alias != relation.alias.as_deref() {
                continue;
            }
            for column in &relation.columns {
                if column.is_visible(alias.is_some()) {
                    let typed = self.typed_column(column.id);
                    out.push(Item { typed, name: column.name.clone() });
                    names.extend(self.mentions.is_some().then(|| {
                        let column = system::quoted(&column.name);
                        match &relation.alias {
                            Some(alias) => format!("{}.{column}", system::quoted(alias)),
                            None => column,
                        }
                    }));
                }
            }
        }
        let at = names::place(options.wildcard_token.0.span.start);
        if let (Some(mentions), Some(at)) = (&mut self.mentions, at) {
            mentions.push(Mention::of_star(at, &names));
        }
    }
}
