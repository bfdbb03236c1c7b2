//! SEARCH and CYCLE of a recursive query: columns that its sides compute, as PostgreSQL rewrites
//! them.
//!
//! ```text
//!              first                     step, over the row before
//!   DEPTH      [row]                     rows before, and the row
//!   BREADTH    (0, row)                  (depth before + 1, row)
//!   mark       DEFAULT                   whether the row is among the rows before: TO or DEFAULT
//!   path       [row]                     rows before, and the row; none behind a row with the mark
//! ```

use super::types::check_equality;
use super::{Binder, Output, Typed};
use crate::carried::{Added, Cycle, Search};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Arith, Compare, Expr, Quantifier};
use crate::logical::{ColumnId, JoinKind, Rel};
use crate::parse;
use crate::record::{Field, Shape};
use crate::types::Type;

/// The columns that are added to a recursive query.
pub(super) struct Columns {
    search: Option<Order>,
    cycle: Option<Marks>,
    pub(super) outputs: Vec<Output>,
}

/// The order of SEARCH.
struct Order {
    is_breadth: bool,
    by: Vec<usize>,
}

/// The name of the first field of a row with its depth.
const DEPTH: &str = "*DEPTH*";

/// The columns of CYCLE, and the two values of its mark.
struct Marks {
    columns: Vec<usize>,
    value: Expr,
    default: Expr,
    ty: Type,
}

fn syntax(message: String) -> SqlError {
    SqlError::new(state::SYNTAX, message)
}

/// Returns the places of columns that a clause names.
fn places(clause: &str, named: &[String], outputs: &[Output]) -> Result<Vec<usize>, SqlError> {
    let mut places = Vec::with_capacity(named.len());
    for name in named {
        let Some(place) = outputs.iter().position(|output| output.name == *name) else {
            return Err(syntax(format!(
                "{clause} column \"{name}\" not in WITH query column list"
            )));
        };
        if places.contains(&place) {
            let message = format!("{clause} column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        places.push(place);
    }
    Ok(places)
}

/// Fails if two of the new columns have one name, or one has that of a column of the query.
fn check_names(added: &Added, outputs: &[Output]) -> Result<(), SqlError> {
    let mut names = Vec::new();
    names.extend(added.search.iter().map(|search| ("search sequence", &search.set)));
    if let Some(cycle) = &added.cycle {
        names.extend([("cycle mark", &cycle.mark), ("cycle path", &cycle.path)]);
    }
    for (at, (kind, name)) in names.iter().enumerate() {
        if let Some((other, _)) = names[..at].iter().find(|(_, other)| other == name) {
            let message = format!("{other} column name and {kind} column name are the same");
            return Err(syntax(message));
        }
        if outputs.iter().any(|output| output.name == **name) {
            let message =
                format!("{kind} column name \"{name}\" already used in WITH query column list");
            return Err(syntax(message));
        }
    }
    Ok(())
}

impl Binder {
    /// Binds the clauses over the columns of a recursive query.
    pub(super) fn added_columns(
        &mut self,
        added: &Added,
        outputs: &[Output],
    ) -> Result<Columns, SqlError> {
        self.columns_of(added, outputs).map_err(|error| error.at(added.place))
    }

    fn columns_of(&mut self, added: &Added, outputs: &[Output]) -> Result<Columns, SqlError> {
        check_names(added, outputs)?;
        let (mut columns, mut all) = ((None, None), Vec::new());
        if let Some(Search { is_breadth, by, set }) = &added.search {
            let ty = if *is_breadth { Type::Record } else { Type::Record.array() };
            columns.0 = Some(Order { is_breadth: *is_breadth, by: places("search", by, outputs)? });
            all.push((set, ty));
        }
        if let Some(Cycle { columns: of, mark, values, path }) = &added.cycle {
            let places = places("cycle", of, outputs)?;
            let marks = self.cycle_marks(places, values.as_ref()).map_err(SqlError::unplaced)?;
            all.extend([(mark, marks.ty), (path, Type::Record.array())]);
            columns.1 = Some(marks);
        }
        let output = |(name, ty): (&String, Type)| Output {
            id: self.computed(name, ty),
            name: name.clone(),
            unknown: false,
        };
        let outputs = all.into_iter().map(output).collect();
        Ok(Columns { search: columns.0, cycle: columns.1, outputs })
    }

    /// Binds the values of a mark.
    fn cycle_marks(
        &mut self,
        columns: Vec<usize>,
        values: Option<&(String, String)>,
    ) -> Result<Marks, SqlError> {
        let Some((value, default)) = values else {
            let (value, default) = (Expr::truth(), Expr::Const(Datum::Bool(false)));
            return Ok(Marks { columns, value, default, ty: Type::Bool });
        };
        let value = self.bind(&parse::expression(value)?)?;
        let default = self.bind(&parse::expression(default)?)?;
        let ty = self.meet_all("CYCLE", &[value.clone(), default.clone()])?.unwrap_or(Type::Text);
        check_equality(ty)?;
        let mut fit = |typed: Typed| self.coerce(typed, ty, false);
        Ok(Marks { columns, value: fit(value)?, default: fit(default)?, ty })
    }
}

impl Columns {
    /// Adds the columns to the first side, whose columns are in order.
    pub(super) fn of_first(
        &self,
        binder: &mut Binder,
        side: (Rel, Vec<ColumnId>),
    ) -> Result<(Rel, Vec<ColumnId>), SqlError> {
        let none = Expr::Const(Datum::Null);
        let (search, path) = (none.clone(), none);
        let default = self.cycle.as_ref().map(|marks| marks.default.clone());
        self.add(binder, side, (search, path), default)
    }

    /// Adds the columns to the step, whose columns are in order, and which reads the row before by
    /// a name.
    pub(super) fn of_step(
        &self,
        binder: &mut Binder,
        (mut rel, ids): (Rel, Vec<ColumnId>),
        name: usize,
    ) -> Result<(Rel, Vec<ColumnId>), SqlError> {
        let wanted: Vec<ColumnId> = self.outputs.iter().map(|output| output.id).collect();
        let Some(before) = carry(&mut rel, name, &wanted) else {
            return Err(SqlError::unsupported("SEARCH or CYCLE of this recursive term"));
        };
        let first = usize::from(self.search.is_some());
        let search = before.first().map_or(Expr::Const(Datum::Null), |id| Expr::Column(*id));
        let (mut path, mut mark) = (Expr::Const(Datum::Null), None);
        if let (Some(marks), [mark_before, path_before, ..]) = (&self.cycle, &before[first..]) {
            let ends = Expr::Compare(
                Compare::Ne,
                Box::new((Expr::Column(*mark_before), marks.value.clone())),
            );
            rel = rel.filter(vec![ends]);
            path = Expr::Column(*path_before);
            let row = row_of(binder, &ids, &marks.columns);
            let sides = Box::new((row, path.clone()));
            let is_among = Expr::Each(Compare::Eq, Quantifier::Any, sides);
            mark = Some(Expr::Case {
                branches: vec![(is_among, marks.value.clone())],
                otherwise: Box::new(marks.default.clone()),
            });
        }
        self.add(binder, (rel, ids), (search, path), mark)
    }

    fn add(
        &self,
        binder: &mut Binder,
        (rel, mut ids): (Rel, Vec<ColumnId>),
        (search, path): (Expr, Expr),
        mark: Option<Expr>,
    ) -> Result<(Rel, Vec<ColumnId>), SqlError> {
        let mut values = Vec::with_capacity(self.outputs.len());
        if let Some(Order { is_breadth, by }) = &self.search {
            let row = row_of(binder, &ids, by);
            values.push(match is_breadth {
                true => deeper(search, row),
                false => appended(binder, search, row)?,
            });
        }
        if let (Some(marks), Some(mark)) = (&self.cycle, mark) {
            let row = row_of(binder, &ids, &marks.columns);
            values.extend([mark, appended(binder, path, row)?]);
        }
        let mut computed = Vec::with_capacity(values.len());
        for (output, value) in self.outputs.iter().zip(values) {
            let id = binder.copied(output.id);
            computed.push((id, value));
            ids.push(id);
        }
        Ok((rel.with_columns(computed), ids))
    }
}

/// Returns the row of some columns, which are in order.
fn row_of(binder: &Binder, ids: &[ColumnId], columns: &[usize]) -> Expr {
    let field = |at: &usize| {
        let info = binder.column(ids[*at]);
        Field { name: info.name.as_str().into(), ty: info.ty }
    };
    let parts = columns.iter().map(|at| Expr::Column(ids[*at])).collect();
    Expr::Row(parts, Shape::Anonymous(columns.iter().map(field).collect()))
}

/// Returns a row behind its depth: one more than that of the row before, or 0.
fn deeper(before: Expr, row: Expr) -> Expr {
    let Expr::Row(mut parts, shape) = row else { return row };
    let one = Expr::Const(Datum::Int8(1));
    let before = Expr::Field(Box::new(before), 0);
    let next = Expr::Arith(Arith::Add, Type::Int8, Box::new((before, one)));
    parts.insert(0, Expr::Coalesce(vec![next, Expr::Const(Datum::Int8(0))]));
    let depth = Field { name: DEPTH.into(), ty: Type::Int8 };
    let fields = std::iter::once(depth).chain(shape.fields().iter().cloned());
    Expr::Row(parts, Shape::Anonymous(fields.collect()))
}

/// Returns the rows before and one more behind them.
fn appended(binder: &mut Binder, before: Expr, row: Expr) -> Result<Expr, SqlError> {
    let before = Typed::of(before, Type::Record.array());
    Ok(binder.apply("array_append", vec![before, Typed::of(row, Type::Record)])?.expr)
}

/// Adds columns of a query of WITH, which a relation reads once, to the relation's own. Returns
/// their ids; `None` if its rows do not each come from one of that query.
fn carry(rel: &mut Rel, name: usize, wanted: &[ColumnId]) -> Option<Vec<ColumnId>> {
    match rel {
        Rel::Named { name: named, columns, of } if *named == name => {
            let id = |wanted: &ColumnId| Some(columns[of.iter().position(|id| id == wanted)?]);
            wanted.iter().map(id).collect()
        }
        Rel::Project { input, outputs } => {
            let ids = carry(input, name, wanted)?;
            for id in &ids {
                if outputs.iter().all(|(known, _)| known != id) {
                    outputs.push((*id, Expr::Column(*id)));
                }
            }
            Some(ids)
        }
        Rel::Filter { input, .. } | Rel::Sort { input, .. } | Rel::Limit { input, .. } => {
            carry(input, name, wanted)
        }
        Rel::Join(join) => match carry(&mut join.left, name, wanted) {
            Some(ids) => Some(ids),
            None if join.kind == JoinKind::Inner => carry(&mut join.right, name, wanted),
            None => None,
        },
        Rel::Window(window) => carry(&mut window.input, name, wanted),
        Rel::With { body, .. } => carry(body, name, wanted),
        _ => None,
    }
}
