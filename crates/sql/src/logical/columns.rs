//! The columns of expressions, and rewrites of expressions.

use super::{ColumnId, Rel, Subquery, Wants};
use crate::datum::Datum;
use crate::expr::Expr;
use crate::function::Volatility;
use std::collections::BTreeSet;

impl Expr {
    /// The conjunction of some conditions; `None` for none.
    pub(crate) fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
        match conditions.len() {
            0 => None,
            1 => conditions.pop(),
            _ => Some(Expr::And(conditions)),
        }
    }

    /// The constant TRUE.
    pub(crate) fn truth() -> Expr {
        Expr::Const(Datum::Bool(true))
    }

    /// True if its value is never NULL, by its operator.
    pub(crate) fn is_never_null(&self) -> bool {
        matches!(self, Expr::IsBool(..) | Expr::IsNull(..) | Expr::Distinct(..))
    }

    /// Splits it into conjuncts; TRUE has none.
    pub(crate) fn into_conjuncts(self, out: &mut Vec<Expr>) {
        match self {
            Expr::And(all) => all.into_iter().for_each(|part| part.into_conjuncts(out)),
            Expr::Const(Datum::Bool(true)) => {}
            other => out.push(other),
        }
    }

    /// Calls `f` with each column that it names, columns inside subqueries included, unless the
    /// subquery makes them itself.
    pub(crate) fn each_column(&self, f: &mut dyn FnMut(ColumnId)) {
        self.walk(&mut |part| match part {
            Expr::Column(id) => f(*id),
            Expr::Subquery(subquery) => {
                let own: BTreeSet<ColumnId> = subquery.rel.columns().into_iter().collect();
                subquery.rel.free_columns().into_iter().for_each(&mut *f);
                if let Wants::Any(condition) = &subquery.wants {
                    condition.each_column(&mut |id| {
                        if !own.contains(&id) {
                            f(id);
                        }
                    });
                }
            }
            _ => {}
        });
    }

    /// True if it names one of these columns.
    pub(crate) fn names_any(&self, columns: &BTreeSet<ColumnId>) -> bool {
        let mut any = false;
        self.each_column(&mut |id| any |= columns.contains(&id));
        any
    }

    /// True if it names no column.
    pub(crate) fn names_none(&self) -> bool {
        let mut none = true;
        self.each_column(&mut |_| none = false);
        none
    }

    /// Calls `f` with each subquery, the inner ones of an expression first.
    pub(crate) fn each_subquery(&mut self, f: &mut dyn FnMut(&mut Subquery)) {
        self.rewrite(&mut |part| {
            if let Expr::Subquery(subquery) = part {
                if let Wants::Any(condition) = &mut subquery.wants {
                    condition.each_subquery(f);
                }
                f(subquery);
            }
        });
    }

    /// The number of its nodes, without those of subqueries.
    pub(crate) fn nodes(&self) -> usize {
        let mut nodes = 0;
        self.walk(&mut |_| nodes += 1);
        nodes
    }

    /// True if there is a subquery in it.
    pub(crate) fn has_subquery(&self) -> bool {
        let mut found = false;
        self.walk(&mut |part| found |= matches!(part, Expr::Subquery(_)));
        found
    }

    /// True if it names a column, outside its subqueries.
    pub(crate) fn names(&self, column: ColumnId) -> bool {
        let mut found = false;
        self.walk(&mut |part| found |= matches!(part, Expr::Column(id) if *id == column));
        found
    }

    /// True if two evaluations may differ.
    pub(crate) fn is_volatile(&self) -> bool {
        let mut found = false;
        self.walk(&mut |part| match part {
            Expr::Call(function, _) => found |= function.volatility == Volatility::Volatile,
            Expr::Subquery(subquery) => {
                found |= subquery.rel.is_volatile();
                if let Wants::Any(condition) = &subquery.wants {
                    found |= condition.is_volatile();
                }
            }
            _ => {}
        });
        found
    }

    /// Replaces each column that `with` knows, also in subqueries.
    pub(crate) fn replace_columns(&mut self, with: &dyn Fn(ColumnId) -> Option<Expr>) {
        self.rewrite(&mut |part| match part {
            Expr::Column(id) => {
                if let Some(expr) = with(*id) {
                    *part = expr;
                }
            }
            Expr::Subquery(subquery) => {
                subquery.rel.replace_columns(with);
                if let Wants::Any(condition) = &mut subquery.wants {
                    condition.replace_columns(with);
                }
            }
            _ => {}
        });
    }
}

impl Rel {
    /// True if it names one of these columns. Precondition: no relation in it makes them.
    pub(crate) fn names_any(&self, columns: &BTreeSet<ColumnId>) -> bool {
        self.exprs().into_iter().any(|expr| expr.names_any(columns))
            || self.keys().iter().any(|id| columns.contains(id))
            || self.inputs().into_iter().any(|input| input.names_any(columns))
    }

    /// True if two evaluations over the same tables may differ.
    pub(crate) fn is_volatile(&self) -> bool {
        let calls = match self {
            Rel::Functions(functions) => functions.calls.as_slice(),
            _ => &[],
        };
        calls.iter().any(|(function, _)| function.volatility == Volatility::Volatile)
            || self.exprs().into_iter().any(Expr::is_volatile)
            || self.inputs().into_iter().any(Rel::is_volatile)
    }

    /// Replaces columns of enclosing relations in all expressions.
    pub(crate) fn replace_columns(&mut self, with: &dyn Fn(ColumnId) -> Option<Expr>) {
        for expr in self.exprs_mut() {
            expr.replace_columns(with);
        }
        for input in self.inputs_mut() {
            input.replace_columns(with);
        }
    }

    /// The expressions of this operator itself.
    pub(crate) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Rel::Values { rows, .. } => rows.iter_mut().flatten().collect(),
            Rel::Filter { condition, .. } => vec![condition],
            Rel::Project { outputs, .. } => outputs.iter_mut().map(|(_, expr)| expr).collect(),
            Rel::Join(join) => vec![&mut join.on],
            Rel::Aggregate { aggregates, .. } => {
                aggregates.iter_mut().flat_map(|(_, aggregate)| aggregate.exprs_mut()).collect()
            }
            Rel::Window(window) => {
                window.calls.iter_mut().flat_map(|(_, call)| call.exprs_mut()).collect()
            }
            Rel::Limit { limit, offset, .. } => limit.iter_mut().chain(offset).collect(),
            Rel::Functions(functions) => {
                functions.calls.iter_mut().flat_map(|(_, args)| args).collect()
            }
            _ => Vec::new(),
        }
    }
}
