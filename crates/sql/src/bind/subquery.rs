//! Subqueries in expressions, and comparisons of rows.

use super::{Binder, Typed};
use crate::aggregate::{self, Aggregate};
use crate::error::{SqlError, state};
use crate::expr::{Compare, Expr};
use crate::limits::MOST_OUTPUTS;
use crate::logical::{Rel, Subquery, Wants};
use crate::types::Type;
use sqlparser::ast::{self, BinaryOperator};

impl Compare {
    pub(super) fn of_operator(op: &BinaryOperator) -> Option<Compare> {
        Some(match op {
            BinaryOperator::Eq => Compare::Eq,
            BinaryOperator::NotEq => Compare::Ne,
            BinaryOperator::Lt => Compare::Lt,
            BinaryOperator::LtEq => Compare::Le,
            BinaryOperator::Gt => Compare::Gt,
            BinaryOperator::GtEq => Compare::Ge,
            _ => return None,
        })
    }

    pub(super) fn negated(self) -> Compare {
        match self {
            Compare::Eq => Compare::Ne,
            Compare::Ne => Compare::Eq,
            Compare::Lt => Compare::Ge,
            Compare::Le => Compare::Gt,
            Compare::Gt => Compare::Le,
            Compare::Ge => Compare::Lt,
        }
    }

    pub(super) fn sign(self) -> &'static str {
        match self {
            Compare::Eq => "=",
            Compare::Ne => "<>",
            Compare::Lt => "<",
            Compare::Le => "<=",
            Compare::Gt => ">",
            Compare::Ge => ">=",
        }
    }
}

fn unequal() -> SqlError {
    SqlError::new(state::SYNTAX, "unequal number of entries in row expressions")
}

impl Binder {
    /// Binds a subquery as a value.
    pub(super) fn scalar_subquery(&mut self, query: &ast::Query) -> Result<Typed, SqlError> {
        let bound = self.bind_query(query)?;
        let [output] = bound.outputs.as_slice() else {
            return Err(SqlError::new(state::SYNTAX, "subquery must return only one column"));
        };
        let column = self.typed_column(output.id);
        self.subquery_names.insert(output.id, output.name.clone());
        let subquery = Subquery { wants: Wants::Value(output.id), rel: bound.rel };
        Ok(Typed { expr: Expr::Subquery(Box::new(subquery)), ..column })
    }

    /// Binds `ARRAY (query)`: the query's column in the order of its rows, which may be none.
    pub(super) fn array_of_query(&mut self, query: &ast::Query) -> Result<Typed, SqlError> {
        let bound = self.bind_query(query)?;
        let [output] = bound.outputs.as_slice() else {
            return Err(SqlError::new(state::SYNTAX, "subquery must return only one column"));
        };
        let element = self.column(output.id).ty;
        let call = aggregate::resolve("array_agg", &[Some(element)])?;
        let aggregate = Aggregate {
            function: call.function,
            args: vec![Expr::Column(output.id)],
            ty: call.result,
            distinct: false,
            order: Vec::new(),
            filter: None,
        };
        let id = self.computed("array", call.result);
        let input = Box::new(bound.rel);
        let aggregates = vec![(id, aggregate)];
        let rel = Rel::Aggregate { input, keys: Vec::new(), sets: None, aggregates };
        let gathered = Expr::Subquery(Box::new(Subquery { wants: Wants::Value(id), rel }));
        let base = call.result.element().unwrap_or(element);
        let all = Expr::Coalesce(vec![gathered, Expr::Array(Vec::new(), base)]);
        Ok(Typed::of(all, call.result))
    }

    /// Binds the comparison of a row with the only row of a query; it is NULL if there is none.
    pub(super) fn compare_row_of(
        &mut self,
        op: Compare,
        lefts: &[ast::Expr],
        query: &ast::Query,
    ) -> Result<Typed, SqlError> {
        // The query first, as PostgreSQL does: its error is the one that is reported.
        let bound = self.bind_query(query)?;
        let lefts = self.row_parts(lefts)?;
        if bound.outputs.len() != lefts.len() {
            let many = if bound.outputs.len() > lefts.len() { "many" } else { "few" };
            return Err(SqlError::new(state::SYNTAX, format!("subquery has too {many} columns")));
        }
        let rights = bound
            .outputs
            .iter()
            .map(|output| Typed::of(Expr::Column(output.id), self.column(output.id).ty));
        let sides = lefts.into_iter().zip(rights.collect::<Vec<_>>()).collect();
        let compared = self.compare_sides(op, sides)?;
        let id = self.computed("?column?", Type::Bool);
        let rel = Rel::Project { input: Box::new(bound.rel), outputs: vec![(id, compared)] };
        let subquery = Subquery { wants: Wants::Value(id), rel };
        Ok(Typed::of(Expr::Subquery(Box::new(subquery)), Type::Bool))
    }

    /// Binds EXISTS.
    pub(super) fn exists(&mut self, query: &ast::Query, negated: bool) -> Result<Typed, SqlError> {
        let rel = self.bind_query(query)?.rel;
        Ok(truth(Subquery { wants: Wants::Existence, rel }, negated))
    }

    /// Binds `left op ANY (query)` or `left op ALL (query)`: a comparison with all rows holds if
    /// its negation holds with none.
    pub(super) fn quantified(
        &mut self,
        left: &ast::Expr,
        op: Compare,
        query: &ast::Query,
        all: bool,
    ) -> Result<Typed, SqlError> {
        // The query first, as PostgreSQL does: its error is the one that is reported.
        let bound = self.bind_query(query)?;
        let lefts = match row_of(left) {
            Some(row) => self.row_parts(row)?,
            None => vec![self.bind(left)?],
        };
        if bound.outputs.len() != lefts.len() {
            let many = if bound.outputs.len() > lefts.len() { "many" } else { "few" };
            return Err(SqlError::new(state::SYNTAX, format!("subquery has too {many} columns")));
        }
        let rights = bound
            .outputs
            .iter()
            .map(|output| Typed::of(Expr::Column(output.id), self.column(output.id).ty));
        let sides = lefts.into_iter().zip(rights.collect::<Vec<_>>()).collect();
        let op = if all { op.negated() } else { op };
        let condition = self.compare_sides(op, sides)?;
        Ok(truth(Subquery { wants: Wants::Any(condition), rel: bound.rel }, all))
    }

    /// Compares two rows.
    pub(super) fn compare_rows(
        &mut self,
        op: Compare,
        lefts: &[ast::Expr],
        rights: &[ast::Expr],
    ) -> Result<Expr, SqlError> {
        let (lefts, rights) = (self.row_parts(lefts)?, self.row_parts(rights)?);
        if lefts.len() != rights.len() {
            return Err(unequal());
        }
        self.compare_sides(op, lefts.into_iter().zip(rights).collect())
    }

    /// Binds a row IN a list of rows. All rows are bound before any is compared, as in PostgreSQL.
    pub(super) fn row_in(
        &mut self,
        lefts: &[ast::Expr],
        list: &[ast::Expr],
    ) -> Result<Expr, SqlError> {
        let left = self.row_parts(lefts)?;
        let mut rows = Vec::with_capacity(list.len());
        for item in list {
            rows.push(self.row_parts(row_of(item).ok_or_else(unequal)?)?);
        }
        // Each subquery has columns of its own.
        let is_bound_again = left.iter().any(|part| part.expr.has_subquery());
        let mut any = Vec::with_capacity(rows.len());
        for (at, row) in rows.into_iter().enumerate() {
            if row.len() != left.len() {
                return Err(unequal());
            }
            let left = match at > 0 && is_bound_again {
                true => self.row_parts(lefts)?,
                false => left.clone(),
            };
            any.push(self.compare_sides(Compare::Eq, left.into_iter().zip(row).collect())?);
        }
        Ok(Expr::Or(any))
    }

    /// Binds IS [NOT] DISTINCT FROM of two rows.
    pub(super) fn distinct_rows(
        &mut self,
        lefts: &[ast::Expr],
        rights: &[ast::Expr],
        same: bool,
    ) -> Result<Expr, SqlError> {
        let (lefts, rights) = (self.row_parts(lefts)?, self.row_parts(rights)?);
        if lefts.len() != rights.len() {
            return Err(unequal());
        }
        let mut parts = Vec::with_capacity(lefts.len());
        for (left, right) in lefts.into_iter().zip(rights) {
            let sides = self.meet_sides(left, right, "IS DISTINCT FROM")?;
            parts.push(Expr::Distinct(Box::new(sides), same));
        }
        Ok(if same { Expr::And(parts) } else { Expr::Or(parts) })
    }

    /// Compares rows by their first different columns.
    fn compare_sides(&mut self, op: Compare, sides: Vec<(Typed, Typed)>) -> Result<Expr, SqlError> {
        if sides.len() > MOST_OUTPUTS {
            let message = format!("ROW expressions can have at most {MOST_OUTPUTS} entries");
            return Err(SqlError::new(state::TOO_MANY_COLUMNS, message));
        }
        let mut parts = Vec::with_capacity(sides.len());
        for (left, right) in sides {
            let part = self.compare(op, left, right, op.sign())?;
            parts.push(part);
        }
        match (parts.len(), op) {
            (0, _) => {
                let message = "cannot compare rows of zero length";
                Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
            }
            (1, _) => Ok(parts.remove(0)),
            (_, Compare::Eq) => Ok(Expr::And(parts)),
            (_, Compare::Ne) => Ok(Expr::Or(parts)),
            _ => ordered(op, parts),
        }
    }
}

/// Makes the comparison `op` of rows out of those of their columns.
fn ordered(op: Compare, parts: Vec<Expr>) -> Result<Expr, SqlError> {
    let sides = parts.into_iter().filter_map(|part| match part {
        Expr::Compare(_, sides) => Some(sides),
        _ => None,
    });
    let sides: Vec<Box<(Expr, Expr)>> = sides.collect();
    // All but the last are compared several times.
    let several = &sides[..sides.len().saturating_sub(1)];
    if several.iter().any(|side| side.0.is_volatile() || side.1.is_volatile()) {
        return Err(SqlError::unsupported("a comparison of rows with volatile values"));
    }
    let (loose, strict) = match op {
        Compare::Lt | Compare::Le => (Compare::Le, Compare::Lt),
        _ => (Compare::Ge, Compare::Gt),
    };
    let [first, rest @ ..] = sides.as_slice() else { return Err(unequal()) };
    // The first conjunct may bound a key.
    let bound = Expr::Compare(loose, first.clone());
    let first = Expr::Compare(strict, first.clone());
    Ok(Expr::And(vec![bound, Expr::Or(vec![first, by_halves(op, strict, rest)])]))
}

/// Compares rows by their first half, and where that is equal by the second one, so that many
/// columns are not nested deep. The columns before the last are compared by `strict`.
fn by_halves(op: Compare, strict: Compare, sides: &[Box<(Expr, Expr)>]) -> Expr {
    if let [last] = sides {
        return Expr::Compare(op, last.clone());
    }
    let (first, second) = sides.split_at(sides.len() / 2);
    let equal = first.iter().map(|side| Expr::Compare(Compare::Eq, side.clone()));
    let mut same: Vec<Expr> = equal.collect();
    same.push(by_halves(op, strict, second));
    Expr::Or(vec![by_halves(strict, strict, first), Expr::And(same)])
}

fn truth(subquery: Subquery, negated: bool) -> Typed {
    let expr = Expr::Subquery(Box::new(subquery));
    Typed::of(if negated { Expr::Not(Box::new(expr)) } else { expr }, Type::Bool)
}

/// Returns the columns of a row constructor.
pub(super) fn row_of(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match expr {
        ast::Expr::Tuple(parts) => Some(parts),
        ast::Expr::Nested(inner) => row_of(inner),
        _ => None,
    }
}
