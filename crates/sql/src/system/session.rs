//! The tables that show what a session has open: its prepared statements and its cursors.

use super::{Rows, SystemContext, Value, Writer};
use crate::names::Qualified;
use crate::portal::Portal;
use crate::session::Session;
use crate::types::Type;
use std::sync::{Arc, LazyLock};

/// A prepared statement, as `pg_prepared_statements` shows it.
#[derive(Clone, Debug)]
pub(crate) struct OpenStatement {
    pub(crate) name: String,
    pub(crate) statement: Arc<str>,
    /// The names of the parameters' types.
    pub(crate) params: Vec<Type>,
    /// True if PREPARE made it.
    pub(crate) is_from_sql: bool,
}

/// A cursor, as `pg_cursors` shows it.
#[derive(Clone, Debug)]
pub(crate) struct OpenCursor {
    pub(crate) name: String,
    pub(crate) statement: Arc<str>,
    pub(crate) is_holdable: bool,
}

/// The statements and cursors that a session has open, for a statement that asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    pub(crate) statements: Vec<OpenStatement>,
    pub(crate) cursors: Vec<OpenCursor>,
}

const STATEMENTS: &str = "pg_prepared_statements";
const CURSORS: &str = "pg_cursors";

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        STATEMENTS => statements,
        CURSORS => cursors,
        _ => return None,
    })
}

static IDS: LazyLock<[u32; 2]> = LazyLock::new(|| {
    [STATEMENTS, CURSORS].map(|name| super::find(&Qualified::of(name)).map_or(0, |it| it.id))
});

/// True if one of these is a table of what a session has open.
pub(crate) fn shows_opened(mut ids: impl Iterator<Item = u32>) -> bool {
    ids.any(|id| super::is_system(id) && IDS.contains(&id))
}

fn statements(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for one in &context.facts.opened.statements {
        out.row(&[
            ("name", one.name.as_str().into()),
            ("statement", (&*one.statement).into()),
            ("parameter_types", Value::Types(&one.params)),
            ("from_sql", one.is_from_sql.into()),
            ("generic_plans", 0.into()),
            ("custom_plans", 0.into()),
        ]);
    }
}

fn cursors(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for one in &context.facts.opened.cursors {
        out.row(&[
            ("name", one.name.as_str().into()),
            ("statement", (&*one.statement).into()),
            ("is_holdable", one.is_holdable.into()),
            ("is_binary", false.into()),
            ("is_scrollable", false.into()),
        ]);
    }
}

impl Session {
    /// Notes what is open, for a statement that reads it.
    pub(crate) fn note_opened(&mut self) {
        let named = self.prepared.iter().filter(|(name, _)| !name.is_empty());
        let mut statements: Vec<OpenStatement> = named
            .map(|(name, prepared)| {
                let params = prepared.compiled.as_ref().map(|it| it.params.clone());
                OpenStatement {
                    name: name.clone(),
                    statement: prepared.shown.clone().unwrap_or_else(|| prepared.sql.clone()),
                    params: params.iter().flat_map(|all| all.iter().copied()).collect(),
                    is_from_sql: prepared.shown.is_some(),
                }
            })
            .collect();
        statements.sort_by(|a, b| a.name.cmp(&b.name));
        let portal = |(name, portal): (&String, &Portal)| {
            let statement = self.prepared.get(&portal.statement)?.sql.clone();
            (portal.is_query() && !name.is_empty()).then(|| OpenCursor {
                name: name.clone(),
                statement,
                is_holdable: false,
            })
        };
        let mut cursors: Vec<OpenCursor> = self.cursors.shown().collect();
        cursors.extend(self.portals.iter().filter_map(portal));
        self.facts.opened = Arc::new(Opened { statements, cursors });
    }
}
