//! A statement whose WITH changes data: its steps, which share the names of WITH and the
//! parameters.
//!
//! Each change is a step, and so is the statement behind WITH. A query of WITH is part of the step
//! that reads it; if several do, it is a step of its own, since it is evaluated once. A step is
//! given the rows of those that it reads.

use super::query::{Bound, Query};
use super::recursive::modifies;
use super::{Binder, Change, Insert, Merge, NamedQuery, Objects, Output, Source};
use crate::catalog::Table;
use crate::error::{SqlError, state};
use crate::logical::{ColumnId, Rel};
use crate::names;
use crate::response::Column;
use crate::types::Type;
use sqlparser::ast::{self, SetExpr, Statement};
use std::sync::Arc;

/// The plan of a step.
pub(crate) enum Part {
    Query(Query),
    Insert(Insert),
    Change(Change),
    Merge(Merge),
}

/// A step of a statement.
pub(crate) struct Step {
    /// Its number among the queries of WITH; `None` for the statement behind WITH.
    pub(crate) number: Option<usize>,
    /// Its name in WITH.
    pub(crate) name: String,
    pub(crate) part: Part,
    /// The numbers of the steps whose rows it reads.
    pub(crate) reads: Vec<usize>,
}

/// A bound statement whose WITH changes data.
pub(crate) struct Modifying {
    /// The statement behind WITH is the last.
    pub(crate) steps: Vec<Step>,
    pub(crate) params: Arc<[Type]>,
}

impl Part {
    /// Returns its query, if it has one.
    fn query(&mut self) -> Option<&mut Query> {
        match self {
            Part::Query(query) => Some(query),
            Part::Insert(Insert { source: Source::Query(query), .. }) => Some(query),
            Part::Insert(_) => None,
            Part::Change(change) => Some(&mut change.query),
            Part::Merge(merge) => Some(&mut merge.query),
        }
    }

    fn uses_of(&mut self, number: usize) -> usize {
        self.query().map_or(0, |query| query.rel.uses_of(number))
    }
}

/// A query of WITH that changes nothing.
struct Definition {
    /// The number of the steps before it.
    place: usize,
    number: usize,
    name: String,
    rel: Rel,
    once: bool,
    outputs: Vec<ColumnId>,
}

/// Binds a statement that changes a table, over the objects that it may name. Returns also the
/// types of the parameters.
pub(crate) fn alone(
    statement: &Statement,
    with: Option<&ast::With>,
    table: Arc<Table>,
    objects: &Objects,
    declared: &[Option<Type>],
) -> Result<(Part, Arc<[Type]>), SqlError> {
    let mut binder = Binder::over(objects, declared);
    let definitions = with.map_or_else(|| Ok(Vec::new()), |with| binder.bind_with(with))?;
    let mut part = binder.bind_main(statement, Some(table), definitions)?;
    let params = binder.param_types();
    if let Some(query) = part.query() {
        binder.complete(query);
    }
    Ok((part, params))
}

/// Binds a statement whose WITH changes data, over the objects that it may name. `target` is the
/// table that the statement behind WITH changes, if it does.
pub(crate) fn modifying(
    with: &ast::With,
    main: &Statement,
    target: Option<Arc<Table>>,
    objects: &Objects,
    declared: &[Option<Type>],
) -> Result<Modifying, SqlError> {
    let mut binder = Binder::over(objects, declared);
    let mut targets = objects.targets.iter().cloned();
    let (mut steps, mut definitions) = (Vec::new(), Vec::new());
    for cte in &with.cte_tables {
        let name = names::fold(&cte.alias.name);
        if modifies(cte) {
            let missing = || SqlError::corrupted("a change without its table");
            let target = targets.next().ok_or_else(missing)?;
            let (number, part) = binder.bind_modifying(with, cte, target)?;
            steps.push(Step { number: Some(number), name, part, reads: Vec::new() });
        } else {
            let (number, rel, once) = binder.bind_cte(with, cte, 0)?;
            let named = binder.named.last();
            let outputs = named.into_iter().flat_map(|named| &named.outputs);
            let outputs = outputs.map(|output| output.id).collect();
            let place = steps.len();
            definitions.push(Definition { place, number, name, rel, once, outputs });
        }
    }
    let part = binder.bind_main(main, target, Vec::new())?;
    steps.push(Step { number: None, name: String::new(), part, reads: Vec::new() });
    for definition in definitions.into_iter().rev() {
        place(definition, &mut steps);
    }
    binder.give_rows(&mut steps);
    let (params, ids) = (binder.param_types(), binder.columns.len());
    for query in steps.iter_mut().filter_map(|step| step.part.query()) {
        query.params = params.clone();
        query.ids = ids;
        query.known.clone_from(&binder.columns);
    }
    Ok(Modifying { steps, params })
}

/// Adds a query of WITH to the step that reads it, or as a step if several do.
fn place(definition: Definition, steps: &mut Vec<Step>) {
    let Definition { place, number, name, rel, once, outputs } = definition;
    let uses: Vec<usize> = steps.iter_mut().map(|step| step.part.uses_of(number)).collect();
    match uses.iter().filter(|uses| **uses > 0).count() {
        0 => {}
        1 => {
            let readers = steps.iter_mut().zip(uses).filter(|(_, uses)| *uses > 0);
            let queries = readers.filter_map(|(step, _)| step.part.query());
            let mut rel = Some(rel);
            for query in queries {
                let definitions = rel.take().map(|rel| (number, rel, once));
                query.rel = query.rel.take().with_all(definitions.into_iter().collect());
            }
        }
        _ => {
            let part = Part::Query(Query::part(rel, outputs));
            steps.insert(place, Step { number: Some(number), name, part, reads: Vec::new() });
        }
    }
}

impl Binder {
    /// Binds a query of WITH that changes data.
    fn bind_modifying(
        &mut self,
        with: &ast::With,
        cte: &ast::Cte,
        target: Arc<Table>,
    ) -> Result<(usize, Part), SqlError> {
        let number = self.number_cte(cte, 0)?;
        if cte.from.is_some() {
            return Err(SqlError::new(state::SYNTAX, "WITH query is not recursive")
                .at(names::position(&cte.alias.name)));
        }
        let name = names::fold(&cte.alias.name);
        let inside = self.named.len();
        let bind = |binder: &mut Self| {
            let own = cte.query.with.as_ref();
            let definitions = own.map_or_else(|| Ok(Vec::new()), |own| binder.bind_with(own))?;
            binder.levels.push(super::Level::default());
            let part = match &*cte.query.body {
                SetExpr::Insert(Statement::Insert(insert)) => {
                    Part::Insert(binder.bind_insert(insert, target, definitions)?)
                }
                SetExpr::Update(changes) | SetExpr::Delete(changes) => {
                    Part::Change(binder.bind_change(changes, target, definitions)?)
                }
                _ => return Err(SqlError::unsupported("this statement in WITH")),
            };
            binder.levels.pop();
            Ok(part)
        };
        let part = match with.recursive {
            true => {
                let message = format!(
                    "recursive query \"{name}\" must not contain data-modifying statements"
                );
                self.refusing(&name, SqlError::new("42P19", message), bind)?
            }
            false => bind(self)?,
        };
        self.named.truncate(inside);
        let returning = match &part {
            Part::Insert(insert) => insert.returning.as_ref().map(|it| it.columns.clone()),
            Part::Change(change) => change.returning.clone(),
            Part::Query(_) | Part::Merge(_) => None,
        };
        match returning {
            Some(columns) => {
                let output = |column: &Column| Output {
                    id: self.computed(&column.name, column.ty),
                    name: column.name.clone(),
                    unknown: false,
                };
                let outputs = columns.iter().map(output).collect();
                self.name_cte(cte, number, outputs)?;
            }
            None => {
                let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
                let refused = Some(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
                self.named.push(NamedQuery { name, number, outputs: Vec::new(), refused });
            }
        }
        Ok((number, part))
    }

    /// Binds the statement behind WITH, or one without.
    fn bind_main(
        &mut self,
        main: &Statement,
        target: Option<Arc<Table>>,
        definitions: Vec<(usize, Rel, bool)>,
    ) -> Result<Part, SqlError> {
        Ok(match (main, target) {
            (Statement::Insert(insert), Some(table)) => {
                Part::Insert(self.bind_insert(insert, table, definitions)?)
            }
            (Statement::Update(_) | Statement::Delete(_), Some(table)) => {
                Part::Change(self.bind_change(main, table, definitions)?)
            }
            (Statement::Merge(merge), Some(table)) => {
                Part::Merge(self.bind_merge(merge, table, definitions)?)
            }
            (Statement::Query(query), _) => {
                // Its WITH is bound already.
                let alone = ast::Query { with: None, ..(**query).clone() };
                let bound = self.bind_query(&alone)?;
                let columns = self.result_columns(&bound);
                let Bound { rel, outputs, rows: _ } = bound;
                let outputs = outputs.iter().map(|output| output.id).collect();
                Part::Query(Query { columns, ..Query::part(rel, outputs) })
            }
            _ => return Err(SqlError::unsupported("this statement behind WITH")),
        })
    }

    /// Notes for each step the steps whose rows it reads.
    fn give_rows(&self, steps: &mut [Step]) {
        let all: Vec<usize> = steps.iter().filter_map(|step| step.number).collect();
        for step in steps {
            step.reads = all.iter().copied().filter(|it| step.part.uses_of(*it) > 0).collect();
            let columns_of = |number: &usize| {
                let named = self.named.iter().find(|named| named.number == *number);
                let outputs = named.into_iter().flat_map(|named| &named.outputs);
                (*number, outputs.map(|output| output.id).collect())
            };
            let given = step.reads.iter().map(columns_of).collect();
            if let Some(query) = step.part.query() {
                query.given = given;
            }
        }
    }
}
