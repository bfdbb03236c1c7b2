//! Inlines named windows where they are used: DataFusion's planner ignores the additions of a
//! window to the one that it names.

use meridian_sql::{SqlError, fold, state};
use sqlparser::ast::{
    self, Expr, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut,
    VisitorMut, WindowSpec, WindowType,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Named = BTreeMap<String, WindowSpec>;

/// Replaces named windows in a SELECT's outputs.
pub(crate) fn resolve(select: &mut Select) -> Result<(), SqlError> {
    let named = definitions(&select.named_window)?;
    select.named_window.clear();
    let mut resolver = Resolver { named: &named, depth: 0 };
    let flow =
        select.projection.iter_mut().try_for_each(|item| VisitMut::visit(item, &mut resolver));
    result(flow)
}

/// Replaces named windows in the ORDER BY of a query, before [`resolve`] forgets their definitions.
pub(crate) fn resolve_order(query: &mut Query) -> Result<(), SqlError> {
    let (SetExpr::Select(select), Some(order)) = (&*query.body, &mut query.order_by) else {
        return Ok(());
    };
    let named = definitions(&select.named_window)?;
    result(VisitMut::visit(order, &mut Resolver { named: &named, depth: 0 }))
}

fn result(flow: ControlFlow<SqlError>) -> Result<(), SqlError> {
    match flow {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn definitions(all: &[NamedWindowDefinition]) -> Result<Named, SqlError> {
    let mut named = Named::new();
    for NamedWindowDefinition(name, definition) in all {
        let spec = match definition {
            NamedWindowExpr::NamedWindow(other) => find(&named, other)?,
            NamedWindowExpr::WindowSpec(spec) => copied(spec.clone(), &named)?,
        };
        let name = fold(name);
        if named.contains_key(&name) {
            return Err(SqlError::new("42P20", format!("window \"{name}\" is already defined")));
        }
        named.insert(name, spec);
    }
    Ok(named)
}

fn find(named: &Named, name: &ast::Ident) -> Result<WindowSpec, SqlError> {
    let name = fold(name);
    let found = named.get(&name).cloned();
    found.ok_or_else(|| {
        SqlError::new(state::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
    })
}

/// Returns a window with the parts that it takes from the one that it names.
fn copied(mut spec: WindowSpec, named: &Named) -> Result<WindowSpec, SqlError> {
    let Some(name) = spec.window_name.take() else { return Ok(spec) };
    let base = find(named, &name)?;
    let named = fold(&name);
    let refused = |message: String| Err(SqlError::new("42P20", message));
    if !spec.partition_by.is_empty() {
        return refused(format!("cannot override PARTITION BY clause of window \"{named}\""));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refused(format!("cannot override ORDER BY clause of window \"{named}\""));
    }
    if base.window_frame.is_some() {
        return refused(format!("cannot copy window \"{named}\" because it has a frame clause"));
    }
    spec.partition_by = base.partition_by;
    if spec.order_by.is_empty() {
        spec.order_by = base.order_by;
    }
    Ok(spec)
}

struct Resolver<'a> {
    named: &'a Named,
    /// The number of subqueries around the current node; their windows are named there.
    depth: usize,
}

impl VisitorMut for Resolver<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let Expr::Function(ast::Function { over: Some(over), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        let found = match over {
            WindowType::NamedWindow(name) => find(self.named, name),
            WindowType::WindowSpec(spec) => copied(spec.clone(), self.named),
        };
        match found {
            Ok(spec) => *over = WindowType::WindowSpec(spec),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}
