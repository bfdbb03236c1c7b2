//! FOR UPDATE, NO KEY UPDATE, SHARE and KEY SHARE: which rows of which tables a query locks.
//!
//! A clause locks the rows that the query's rows are made of: those of each table in FROM, and
//! those of subqueries and views there. With OF it does so for some of the names in FROM. The key
//! of each row passes through the query's projections, so that [`Rel::Lock`] has it. A query whose
//! rows are no rows of tables (groups, unions) cannot be locked; functions and VALUES have nothing
//! to lock.

use super::Binder;
use super::scope::Relation;
use crate::carried;
use crate::error::{SqlError, state};
use crate::logical::{ColumnId, JoinKind, Rel};
use crate::names;
use meridian_txn::Lock;
use sqlparser::ast::{self, SetExpr};
use std::fmt;

/// The strength of a clause, weakest first. Two of PostgreSQL's four share a lock here: a lock
/// excludes what PostgreSQL's would, and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

impl Strength {
    /// Returns that of a clause.
    pub(crate) fn of(clause: &ast::LockClause) -> Strength {
        carried::strength(clause.of.as_ref()).0.unwrap_or(match clause.lock_type {
            ast::LockType::Share => Strength::Share,
            ast::LockType::Update => Strength::Update,
        })
    }

    /// Returns the lock that it takes.
    pub(crate) fn lock(self) -> Lock {
        match self {
            Strength::KeyShare | Strength::Share => Lock::Shared,
            Strength::NoKeyUpdate | Strength::Update => Lock::Exclusive,
        }
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strength::KeyShare => "FOR KEY SHARE",
            Strength::Share => "FOR SHARE",
            Strength::NoKeyUpdate => "FOR NO KEY UPDATE",
            Strength::Update => "FOR UPDATE",
        })
    }
}

/// The action at locked rows, the one that counts of several last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OnLocked {
    /// Wait for the lock.
    Wait,
    /// SKIP LOCKED: leave the row out.
    Skip,
    /// NOWAIT: fail.
    Fail,
}

/// The locks of the rows of one table in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLocks {
    pub(crate) strength: Strength,
    pub(crate) on_locked: OnLocked,
    /// The column with the rows' keys.
    pub(crate) of: ColumnId,
    /// True if a row that is locked and not written stays as it is until the transaction has
    /// committed, under every protocol.
    pub(crate) keeps: bool,
}

/// The rows of tables that the rows of a query, or of a relation in FROM, are made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lockable {
    /// The columns with their keys, while keys are read.
    keys: Vec<ColumnId>,
    /// The clause that makes other rows of them.
    refused: Option<&'static str>,
    /// The kind of a relation that OF cannot name.
    kind: Option<&'static str>,
}

impl Lockable {
    /// The rows of one table.
    pub(super) fn of(key: Option<ColumnId>) -> Lockable {
        Lockable { keys: key.into_iter().collect(), ..Lockable::default() }
    }

    /// The rows of a query with such a clause.
    pub(super) fn refused(clause: &'static str) -> Lockable {
        Lockable { refused: Some(clause), ..Lockable::default() }
    }

    /// The rows of several relations side by side.
    pub(super) fn all(relations: &[Relation]) -> Lockable {
        let keys = relations.iter().flat_map(|relation| &relation.rows.keys).copied().collect();
        let refused = relations.iter().find_map(|relation| relation.rows.refused);
        Lockable { keys, refused, kind: None }
    }

    /// Makes them those of a relation that OF cannot name.
    pub(super) fn of_kind(self, kind: &'static str) -> Lockable {
        Lockable { kind: Some(kind), ..self }
    }

    /// Returns the columns with their keys.
    pub(super) fn keys(&self) -> &[ColumnId] {
        &self.keys
    }

    /// Returns their keys; fails if they cannot be locked.
    fn locked(&self, strength: Strength) -> Result<&[ColumnId], SqlError> {
        match self.refused {
            None => Ok(&self.keys),
            Some(clause) => Err(refused(strength, clause)),
        }
    }
}

fn refused(strength: Strength, clause: &str) -> SqlError {
    let message = format!("{strength} is not allowed with {clause}");
    SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
}

/// A clause of a query.
#[derive(Clone, Debug)]
pub(super) struct LockClause {
    strength: Strength,
    on_locked: OnLocked,
    of: Option<ast::Ident>,
}

impl LockClause {
    /// Reads the clauses of a query.
    pub(super) fn all(clauses: &[ast::LockClause]) -> Result<Vec<LockClause>, SqlError> {
        clauses.iter().map(LockClause::read).collect()
    }

    fn read(clause: &ast::LockClause) -> Result<LockClause, SqlError> {
        let ast::LockClause { lock_type: _, of, nonblock } = clause;
        let strength = Strength::of(clause);
        let (_, names) = carried::strength(of.as_ref());
        let on_locked = match nonblock {
            None => OnLocked::Wait,
            Some(ast::NonBlock::Nowait) => OnLocked::Fail,
            Some(ast::NonBlock::SkipLocked) => OnLocked::Skip,
        };
        let of = match names {
            [] => None,
            [name] => name.as_ident().cloned(),
            [first, ..] => {
                let message = format!("{strength} must specify unqualified relation names");
                let place = first.as_ident().and_then(names::position);
                return Err(SqlError::new(state::SYNTAX, message).at(place));
            }
        };
        Ok(LockClause { strength, on_locked, of })
    }

    /// Fails if there are clauses for what is no SELECT.
    pub(super) fn refuse(clauses: &[LockClause], body: &SetExpr) -> Result<(), SqlError> {
        let Some(LockClause { strength, .. }) = clauses.first() else { return Ok(()) };
        let message = match body {
            SetExpr::Values(_) => format!("{strength} cannot be applied to VALUES"),
            _ => return Err(refused(*strength, "UNION/INTERSECT/EXCEPT")),
        };
        Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
    }
}

impl Binder {
    /// Returns the locks of the innermost query's clauses, one for each table. `apart` is the
    /// clause that makes other rows of those of its relations.
    pub(super) fn row_locks(
        &self,
        clauses: &[LockClause],
        apart: Option<&str>,
    ) -> Result<Vec<RowLocks>, SqlError> {
        let mut locks: Vec<RowLocks> = Vec::new();
        for LockClause { strength, on_locked, of } in clauses {
            if let Some(clause) = apart {
                return Err(refused(*strength, clause));
            }
            let rows = match of {
                None => Lockable::all(self.relations()),
                Some(name) => self.named_in_from(name, *strength)?.clone(),
            };
            let keys = rows.locked(*strength)?;
            for key in keys {
                match locks.iter_mut().find(|locks| locks.of == *key) {
                    Some(known) => {
                        known.strength = known.strength.max(*strength);
                        known.on_locked = known.on_locked.max(*on_locked);
                    }
                    None => {
                        let (strength, on_locked) = (*strength, *on_locked);
                        locks.push(RowLocks { strength, on_locked, of: *key, keeps: true });
                    }
                }
            }
        }
        Ok(locks)
    }

    /// Returns the rows of a relation that OF names.
    fn named_in_from(&self, ident: &ast::Ident, strength: Strength) -> Result<&Lockable, SqlError> {
        let name = names::fold(ident);
        let mut relations = self.relations().iter();
        let found = relations.find(|relation| relation.alias.as_deref() == Some(&*name));
        let (sqlstate, message) = match found.map(|relation| (&relation.rows, relation.rows.kind)) {
            Some((rows, None)) => return Ok(rows),
            Some((_, Some(kind))) => {
                (state::FEATURE_NOT_SUPPORTED, format!("{strength} cannot be applied to {kind}"))
            }
            None => (
                state::UNDEFINED_TABLE,
                format!("relation \"{name}\" in {strength} clause not found in FROM clause"),
            ),
        };
        Err(SqlError::new(sqlstate, message).at(names::position(ident)))
    }
}

impl Rel {
    /// True if a query in it locks rows.
    pub(crate) fn locks_rows(&self) -> bool {
        let mut locks = matches!(self, Rel::Lock { .. });
        for expr in self.exprs() {
            expr.walk(&mut |part| {
                if let crate::expr::Expr::Subquery(subquery) = part {
                    locks |= subquery.rel.locks_rows();
                }
            });
        }
        locks || self.inputs().into_iter().any(Rel::locks_rows)
    }

    /// True if a column's relation is on a side of an outer join that returns rows without one of
    /// it.
    pub(crate) fn is_nullable(&self, column: ColumnId) -> bool {
        let has = |rel: &Rel| rel.columns().contains(&column);
        match self {
            Rel::Join(join) => {
                let has_right = has(&join.right);
                match join.kind {
                    JoinKind::Inner => {}
                    JoinKind::Full if has_right || has(&join.left) => return true,
                    _ if has_right => return true,
                    _ => {}
                }
                [&join.left, &join.right].into_iter().any(|side| side.is_nullable(column))
            }
            other => other.inputs().into_iter().any(|input| input.is_nullable(column)),
        }
    }
}
