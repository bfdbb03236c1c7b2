//! The queries of WITH, recursive ones among them.

use super::lock::Lockable;
use super::query::{Bound, order_of};
use super::types::check_equality;
use super::{Binder, NamedQuery, Output};
use crate::carried::{self, Added};
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::logical::{JoinKind, Recursion, Rel, SetOp};
use crate::names;
use crate::types::Type;
use sqlparser::ast::{self, SetExpr, SetQuantifier};

/// The sides of a UNION that may be recursive.
#[derive(Clone, Copy)]
struct Union<'a> {
    query: &'a ast::Query,
    first: &'a SetExpr,
    step: &'a SetExpr,
    all: bool,
}

/// Returns the sides of a query that is a UNION.
fn union_of(query: &ast::Query) -> Option<Union<'_>> {
    let SetExpr::SetOperation { left, op: ast::SetOperator::Union, set_quantifier, right } =
        &*query.body
    else {
        return None;
    };
    let all = match set_quantifier {
        SetQuantifier::All => true,
        SetQuantifier::None | SetQuantifier::Distinct => false,
        _ => return None,
    };
    Some(Union { query, first: left, step: right, all })
}

/// Fails unless the sides of a query with SEARCH or CYCLE are SELECT or VALUES.
fn check_sides(union: &Union<'_>) -> Result<(), SqlError> {
    let is_plain = |side: &SetExpr| matches!(side, SetExpr::Select(_) | SetExpr::Values(_));
    let sides =
        [("left", union.first, state::FEATURE_NOT_SUPPORTED), ("right", union.step, state::SYNTAX)];
    match sides.into_iter().find(|(_, side, _)| !is_plain(side)) {
        Some((which, _, sqlstate)) => {
            let message = format!(
                "with a SEARCH or CYCLE clause, the {which} side of the UNION must be a SELECT"
            );
            Err(SqlError::new(sqlstate, message))
        }
        None => Ok(()),
    }
}

/// True if a query of WITH changes data.
pub(crate) fn modifies(cte: &ast::Cte) -> bool {
    matches!(
        &*cte.query.body,
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
    )
}

fn rename(outputs: &mut [Output], columns: &[ast::TableAliasColumnDef]) {
    for (output, renamed) in outputs.iter_mut().zip(columns) {
        output.name = names::fold(&renamed.name);
    }
}

fn misplaced(name: &str, place: &str) -> SqlError {
    let message = format!("recursive reference to query \"{name}\" must not appear {place}");
    SqlError::new("42P19", message)
}

impl Binder {
    /// Binds the queries of WITH; returns their numbers, and true for those that are evaluated once
    /// however they are used.
    pub(super) fn bind_with(
        &mut self,
        with: &ast::With,
    ) -> Result<Vec<(usize, Rel, bool)>, SqlError> {
        let mut definitions = Vec::with_capacity(with.cte_tables.len());
        let first = self.named.len();
        for cte in &with.cte_tables {
            if modifies(cte) {
                let what =
                    "WITH clause containing a data-modifying statement must be at the top level";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, what)
                    .at(names::position(&cte.alias.name)));
            }
            definitions.push(self.bind_cte(with, cte, first)?);
        }
        Ok(definitions)
    }

    /// Returns the number of the next query of WITH. Fails if a query of the same WITH, whose first
    /// is `first`, has its name.
    pub(super) fn number_cte(&mut self, cte: &ast::Cte, first: usize) -> Result<usize, SqlError> {
        let ast::Cte { alias, query: _, from, materialized: _, closing_paren_token: _ } = cte;
        let is_other = |from: &ast::Ident| carried::added(from).is_none();
        if from.as_ref().is_some_and(is_other) || alias.at.is_some() {
            return Err(SqlError::unsupported("WITH … FROM"));
        }
        let name = names::fold(&alias.name);
        if self.named[first..].iter().any(|named| named.name == name) {
            let message = format!("WITH query name \"{name}\" specified more than once");
            return Err(SqlError::new("42712", message).at(names::position(&alias.name)));
        }
        self.named_count += 1;
        Ok(self.named_count - 1)
    }

    /// Lets the queries behind it name a query of WITH.
    pub(super) fn name_cte(
        &mut self,
        cte: &ast::Cte,
        number: usize,
        mut outputs: Vec<Output>,
    ) -> Result<(), SqlError> {
        let (name, columns) = (names::fold(&cte.alias.name), &cte.alias.columns);
        if columns.len() > outputs.len() {
            let message = format!(
                "WITH query \"{name}\" has {} columns available but {} columns specified",
                outputs.len(),
                columns.len()
            );
            return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message)
                .at(names::position(&cte.alias.name)));
        }
        rename(&mut outputs, columns);
        self.named.push(NamedQuery { name, number, outputs, refused: None });
        Ok(())
    }

    /// Binds a query of WITH.
    pub(super) fn bind_cte(
        &mut self,
        with: &ast::With,
        cte: &ast::Cte,
        first: usize,
    ) -> Result<(usize, Rel, bool), SqlError> {
        let number = self.number_cte(cte, first)?;
        let ast::Cte { alias, query, from, materialized, closing_paren_token: _ } = cte;
        let name = names::fold(&alias.name);
        let added = from.as_ref().and_then(carried::added);
        let not_recursive = || {
            let error = SqlError::new(state::SYNTAX, "WITH query is not recursive");
            error.at(names::position(&alias.name))
        };
        let bound = match union_of(query).filter(|_| with.recursive) {
            None if added.is_some() => return Err(not_recursive()),
            Some(union) => {
                let bound = self.bind_recursive(&name, union, &alias.columns, added.as_ref())?;
                if added.is_some() && !matches!(bound.rel, Rel::Recursive(_)) {
                    return Err(not_recursive());
                }
                bound
            }
            None if with.recursive => {
                let message = format!(
                    "recursive query \"{name}\" does not have the form \
                     non-recursive-term UNION [ALL] recursive-term"
                );
                self.refusing(&name, SqlError::new("42P19", message), |binder| {
                    binder.bind_query(query)
                })?
            }
            None => self.bind_query(query)?,
        };
        let Bound { rel, outputs, rows: _ } = bound;
        self.name_cte(cte, number, outputs)?;
        let once = matches!(materialized, Some(ast::CteAsMaterialized::Materialized))
            || rel.is_volatile()
            || rel.locks_rows();
        Ok((number, rel, once))
    }

    /// Binds something that may not name a recursive query.
    pub(super) fn refusing<T>(
        &mut self,
        name: &str,
        error: SqlError,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let (name, outputs) = (name.to_owned(), Vec::new());
        self.named.push(NamedQuery { name, number: usize::MAX, outputs, refused: Some(error) });
        let bound = bind(self);
        self.named.pop();
        bound
    }

    /// Binds a query of WITH RECURSIVE, whose second side may name the query itself.
    fn bind_recursive(
        &mut self,
        name: &str,
        union: Union<'_>,
        columns: &[ast::TableAliasColumnDef],
        added: Option<&Added>,
    ) -> Result<Bound, SqlError> {
        if added.is_some() {
            check_sides(&union)?;
        }
        if union.query.with.is_some() {
            let refused = SqlError::unsupported("WITH in a recursive query");
            return self.refusing(name, refused, |binder| binder.bind_query(union.query));
        }
        let number = self.named_count;
        self.named_count += 1;
        let refused = misplaced(name, "within its non-recursive term");
        let first = self.refusing(name, refused, |binder| binder.bind_side(union.first))?;
        let mut outputs = Vec::with_capacity(first.outputs.len());
        let mut types = Vec::with_capacity(first.outputs.len());
        for output in &first.outputs {
            let ty = if output.unknown { Type::Text } else { self.columns[output.id].ty };
            let id = self.computed(&output.name, ty);
            outputs.push(Output { id, name: output.name.clone(), unknown: false });
            types.push(ty);
        }
        rename(&mut outputs, columns);
        let added = added.map(|added| self.added_columns(added, &outputs)).transpose()?;
        outputs.extend(added.iter().flat_map(|added| added.outputs.clone()));
        let (name_of, outputs_of) = (name.to_owned(), outputs.clone());
        let named = NamedQuery { name: name_of, number, outputs: outputs_of, refused: None };
        self.named.push(named);
        let step = self.bind_side(union.step);
        self.named.pop();
        let mut step = step?;
        if step.rel.uses_of(number) == 0 {
            // It is not recursive: the sides are those of a plain query.
            let set = self.bind_set(SetOp::Union, union.all, "UNION", vec![first, step])?;
            return self.bind_query_of(union.query, Some(set));
        }
        step.rel.check_step(name, number)?;
        let ast::Query { order_by, limit_clause, fetch, locks, .. } = union.query;
        if !order_of(order_by.as_ref())?.by.is_empty() {
            return Err(SqlError::unsupported("ORDER BY in a recursive query"));
        }
        if limit_clause.is_some() || fetch.is_some() {
            return Err(SqlError::unsupported("LIMIT or OFFSET in a recursive query"));
        }
        if !locks.is_empty() {
            return Err(SqlError::unsupported("FOR UPDATE in a recursive query"));
        }
        if step.outputs.len() != types.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(SqlError::new(state::SYNTAX, message));
        }
        for (at, (output, ty)) in step.outputs.iter().zip(&types).enumerate() {
            let of_step = self.columns[output.id].ty;
            let typed = |ty: Type| super::Typed::of(Expr::Column(output.id), ty);
            let overall = match output.unknown {
                true => Some(*ty),
                false => self.meet_all("UNION", &[typed(*ty), typed(of_step)])?,
            };
            // A length or a scale holds only if both sides have it.
            let is_limited = ty.modifier() >= 0 && of_step.modifier() != ty.modifier();
            let overall = match overall {
                Some(overall) if overall.base() != ty.base() => Some(overall),
                Some(overall) if is_limited && !output.unknown => Some(overall.base()),
                _ => None,
            };
            if let Some(overall) = overall {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {ty} in non-recursive term \
                     but type {overall} overall",
                    at + 1,
                );
                return Err(SqlError::new(state::TYPE_MISMATCH, message)
                    .hint("Cast the output of the non-recursive term to the correct type."));
            }
        }
        if !union.all {
            types.iter().try_for_each(|ty| check_equality(*ty))?;
        }
        let (mut first, mut step) = (self.side(first, &types)?, self.side(step, &types)?);
        if let Some(added) = &added {
            first = added.of_first(self, first)?;
            step = added.of_step(self, step, number)?;
        }
        let recursion = Recursion {
            name: number,
            all: union.all,
            columns: outputs.iter().map(|output| output.id).collect(),
            first,
            step,
        };
        let rel = Rel::Recursive(Box::new(recursion));
        Ok(Bound { rel, outputs, rows: Lockable::default() })
    }
}

impl Rel {
    /// Checks that the step of a recursive query reads the rows of the round before once, and where
    /// a round's rows follow from these alone.
    fn check_step(&mut self, name: &str, number: usize) -> Result<(), SqlError> {
        if self.uses_of(number) > 1 {
            return Err(misplaced(name, "more than once"));
        }
        let mut in_subquery = 0;
        for expr in self.exprs_mut() {
            expr.each_subquery(&mut |subquery| in_subquery += subquery.rel.uses_of(number));
        }
        if in_subquery > 0 {
            return Err(misplaced(name, "within a subquery"));
        }
        let below: usize = self.inputs_mut().into_iter().map(|input| input.uses_of(number)).sum();
        match self {
            Rel::Join(join) => {
                let (left, right) = (join.left.uses_of(number), join.right.uses_of(number));
                if join.kind == JoinKind::Left && right > 0
                    || join.kind == JoinKind::Full && left + right > 0
                {
                    return Err(misplaced(name, "within an outer join"));
                }
            }
            Rel::Set(set) => {
                // Sides whose rows do not count one by one.
                let (first, place) = match set.op {
                    SetOp::Union => (set.sides.len(), ""),
                    SetOp::Intersect if !set.all => (set.sides.len(), ""),
                    SetOp::Intersect => (0, "within INTERSECT"),
                    SetOp::Except => (usize::from(!set.all), "within EXCEPT"),
                };
                if set.sides[first..].iter_mut().any(|(side, _)| side.uses_of(number) > 0) {
                    return Err(misplaced(name, place));
                }
            }
            Rel::Aggregate { .. } if below > 0 => {
                let message =
                    "aggregate functions are not allowed in a recursive query's recursive term";
                return Err(SqlError::new("42P19", message));
            }
            _ => {}
        }
        self.inputs_mut().into_iter().try_for_each(|input| input.check_step(name, number))
    }
}
