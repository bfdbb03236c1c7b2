//! Expressions, bound to columns and types, and their evaluation in three-valued logic.

use crate::advisory;
use crate::array::Array;
use crate::cast::{self, Coercion};
use crate::catalog::SearchPath;
use crate::consistency::Guarantees;
use crate::datetime::{Local, Zone};
use crate::datum::Datum;
use crate::domain::Domain;
use crate::effects::Effects;
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::function::{self, Function, Volatility};
use crate::interrupt;
use crate::logical::Subquery;
use crate::made::Made;
use crate::memory::{self, Held, QueryMemory};
use crate::notify::Notifications;
use crate::number;
use crate::record::{Record, Shape};
use crate::sequence::Sequences;
use crate::settings::Settings;
use crate::system::{Catalog, Opened, ServerInfo, Sessions};
use crate::temporary::Temporary;
use crate::turn::Clock;
use crate::types::Type;
use meridian_clock::Timestamp;
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The context of an expression besides its row.
pub(crate) struct Scope<'a> {
    pub(crate) params: &'a [Datum],
    /// The start of the transaction, in microseconds since PostgreSQL's epoch.
    pub(crate) now_us: i64,
    pub(crate) session: &'a Facts,
    /// The tables of the database, for functions that read them.
    pub(crate) catalog: Option<&'a Catalog>,
    /// The calls of functions that have effects, where these are possible.
    pub(crate) effects: Option<&'a Effects>,
}

impl Scope<'static> {
    /// Returns the context of immutable expressions, which need no session and no time.
    pub(crate) fn immutable() -> Scope<'static> {
        static FACTS: LazyLock<Facts> = LazyLock::new(Facts::default);
        Scope { params: &[], now_us: 0, session: &FACTS, catalog: None, effects: None }
    }
}

impl Scope<'_> {
    /// Returns what texts and values of times are understood by. What is immutable has no time.
    pub(crate) fn local(&self) -> Local<'_> {
        Local { zone: self.session.zone(), now_us: (self.now_us != 0).then_some(self.now_us) }
    }
}

/// The session's properties, for functions.
#[derive(Clone, Default)]
pub struct Facts {
    /// The session's user.
    pub user: String,
    /// The session's database.
    pub database: String,
    /// The server information, about other sessions and databases.
    pub(crate) server_info: Option<Arc<dyn ServerInfo>>,
    /// The sessions of this process.
    pub(crate) sessions: Arc<Sessions>,
    /// The session's process number, for its client.
    pub(crate) pid: i32,
    /// The earliest possible time when the current statement began, in microseconds since
    /// PostgreSQL's epoch; `None` without a clock.
    pub(crate) statement_us: Option<i64>,
    /// The guarantees of the database.
    pub(crate) guarantees: Guarantees,
    /// The session's settings.
    pub(crate) settings: Arc<Settings>,
    /// The session's causal token: the greatest timestamp that it was told.
    pub(crate) token: Timestamp,
    /// The clock by which long statements let others run.
    pub(crate) clock: Option<Clock>,
    /// The memory limit of queries.
    pub(crate) memory: Arc<QueryMemory>,
    /// The sequences that the session has used.
    pub(crate) sequences: Arc<Sequences>,
    /// The advisory locks that the session holds.
    pub(crate) advisory: Arc<advisory::Holds>,
    /// The calls of the running statement that its replay does not make again.
    pub(crate) made: Arc<Made>,
    /// The notifications of the session.
    pub(crate) notifications: Arc<Notifications>,
    /// The temporary objects of the session.
    pub(crate) temporary: Arc<Temporary>,
    /// The warnings of the functions of the running statement.
    pub(crate) warnings: Arc<Mutex<Warnings>>,
    /// The database; `None` where expressions are evaluated without one.
    pub(crate) engine: Option<Arc<Engine>>,
    /// The prepared statements and cursors of the session, if the statement reads them.
    pub(crate) opened: Arc<Opened>,
}

/// The most warnings of a statement that its client gets.
const MOST_WARNINGS: u64 = 1000;

/// The warnings of a statement.
#[derive(Default)]
pub(crate) struct Warnings {
    count: u64,
    /// Those of the first that the client has not got yet.
    waiting: Vec<SqlError>,
}

impl Facts {
    fn warnings(&self) -> MutexGuard<'_, Warnings> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Warns the client.
    pub(crate) fn warn(&self, warning: SqlError) {
        let mut warnings = self.warnings();
        if warnings.count < MOST_WARNINGS {
            warnings.waiting.push(warning);
        }
        warnings.count += 1;
    }

    /// Begins an attempt of a statement, which has warned of nothing yet.
    pub(crate) fn forget_warnings(&self) {
        *self.warnings() = Warnings::default();
    }

    /// Takes the warnings of the running statement since the last call; at its end, also how many
    /// are left out.
    pub(crate) fn take_warnings(&self, is_done: bool) -> Vec<SqlError> {
        let mut warnings = self.warnings();
        let mut all = std::mem::take(&mut warnings.waiting);
        if is_done && warnings.count > MOST_WARNINGS {
            let count = warnings.count - MOST_WARNINGS;
            all.push(SqlError::new("01000", format!("{count} more warnings are left out")));
        }
        all
    }

    /// Returns the settings, to change them.
    pub(crate) fn settings_mut(&mut self) -> &mut Settings {
        // Steps of the transaction that is open may have them as they were.
        Arc::make_mut(&mut self.settings)
    }

    /// Returns an empty reservation of the memory that queries share.
    pub fn held(&self) -> Held {
        Held::none(&self.memory)
    }

    /// Returns the schemas in which the session looks for names that have none.
    pub(crate) fn search_path(&self) -> SearchPath {
        let setting = self.settings.get("search_path").unwrap_or_default();
        SearchPath::of(setting, &self.user, self.temporary.generation())
    }

    /// True if a search path is that of the session, and its temporary objects are what they were.
    pub(crate) fn is_search_path(&self, path: &SearchPath) -> bool {
        let setting = self.settings.get("search_path").unwrap_or_default();
        path.is_of(setting) && path.generation() == self.temporary.generation()
    }

    /// Returns the session's time zone.
    pub(crate) fn zone(&self) -> &Zone {
        self.settings.zone()
    }

    pub(crate) fn server_info(&self) -> Option<&Arc<dyn ServerInfo>> {
        self.server_info.as_ref()
    }
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.user, self.database)
    }
}

/// The size of the arguments from which a function may compute for long, in bytes.
const APART_BYTES: usize = 64 << 10;
/// The size from which a value is accounted for while it is used, in bytes.
const LARGE_BYTES: usize = 16 << 10;

/// Values that are in memory together, and the memory of large ones.
struct Values<'a> {
    all: Vec<Datum>,
    held: Option<Held>,
    /// The size of the large ones.
    bytes: usize,
    facts: &'a Facts,
}

impl<'a> Values<'a> {
    fn of(scope: &Scope<'a>) -> Self {
        Values { all: Vec::new(), held: None, bytes: 0, facts: scope.session }
    }

    /// Calls a function of them, apart from the thread's other tasks if they are large.
    fn call<T>(&self, f: impl FnOnce(&[Datum]) -> T) -> T {
        if self.bytes >= APART_BYTES {
            return interrupt::apart(|| f(&self.all));
        }
        f(&self.all)
    }

    /// Adds a value; fails with 53200 if queries have no memory for it.
    fn add(&mut self, value: Datum) -> Result<(), SqlError> {
        let bytes = memory::behind(&value);
        if bytes >= LARGE_BYTES {
            self.held.get_or_insert_with(|| self.facts.held()).add(bytes)?;
            self.bytes += bytes;
        }
        self.all.push(value);
        Ok(())
    }
}

/// Returns the values of expressions for a row.
pub(crate) fn evaluate(
    exprs: &[Expr],
    row: &[Datum],
    scope: &Scope<'_>,
) -> Result<Vec<Datum>, SqlError> {
    let mut values = Values::of(scope);
    values.all.reserve_exact(exprs.len());
    exprs.iter().try_for_each(|expr| values.add(expr.eval(row, scope)?))?;
    Ok(values.all)
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Compare {
    /// Returns the comparison with its sides exchanged.
    pub(crate) fn flipped(self) -> Self {
        match self {
            Compare::Lt => Compare::Gt,
            Compare::Le => Compare::Ge,
            Compare::Gt => Compare::Lt,
            Compare::Ge => Compare::Le,
            same => same,
        }
    }

    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Compare::Eq => order.is_eq(),
            Compare::Ne => order.is_ne(),
            Compare::Lt => order.is_lt(),
            Compare::Le => order.is_le(),
            Compare::Gt => order.is_gt(),
            Compare::Ge => order.is_ge(),
        }
    }
}

/// Whether a comparison must be true for any element of an array or for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    All,
}

/// An arithmetic operator; both sides have the type of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arith {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

/// A bound expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Const(Datum),
    /// A parameter of the statement, or behind them a column of an enclosing relation.
    Param(usize),
    /// A column: by its id in a logical plan, by its position in the row when it is evaluated.
    Column(usize),
    Arith(Arith, Type, Box<(Expr, Expr)>),
    Compare(Compare, Box<(Expr, Expr)>),
    /// IS [NOT] DISTINCT FROM: true when distinct, unless negated.
    Distinct(Box<(Expr, Expr)>, bool),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// IS [NOT] NULL: of a row, that all of its fields are, or that none is
    IsNull(Box<Expr>, bool),
    /// IS [NOT] TRUE / FALSE: the tested value, and true if negated.
    IsBool(Box<Expr>, bool, bool),
    In(Box<Expr>, Vec<Expr>, bool),
    /// A comparison of the left side with the elements of an array: true for any of them, or for
    /// all.
    Each(Compare, Quantifier, Box<(Expr, Expr)>),
    /// An array of elements, or of arrays.
    Array(Vec<Expr>, Type),
    /// A row of fields.
    Row(Vec<Expr>, Shape),
    /// A field of a row, by its place.
    Field(Box<Expr>, usize),
    Like {
        text: Box<Expr>,
        pattern: Box<Expr>,
        /// `None` for ESCAPE ''.
        escape: Option<char>,
        negated: bool,
        fold: bool,
    },
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Coalesce(Vec<Expr>),
    Cast(Box<Expr>, Type, Coercion),
    /// A value of a domain's base type, which is checked.
    Domain(Box<Expr>, Domain),
    Call(&'static Function, Vec<Expr>),
    /// A subquery, in logical plans only.
    Subquery(Box<Subquery>),
}

impl Expr {
    /// Returns its value for a row.
    pub(crate) fn eval(&self, row: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
        Ok(match self {
            Expr::Const(datum) => datum.clone(),
            Expr::Param(at) => scope.params.get(*at).cloned().ok_or_else(|| {
                SqlError::new(
                    state::UNDEFINED_PARAMETER,
                    format!("there is no parameter ${}", at + 1),
                )
            })?,
            Expr::Column(at) => row[*at].clone(),
            Expr::Arith(op, ty, sides) => {
                let (left, right) = (sides.0.eval(row, scope)?, sides.1.eval(row, scope)?);
                if left.is_null() || right.is_null() {
                    return Ok(Datum::Null);
                }
                number::arith(*op, *ty, &left, &right)?
            }
            Expr::Compare(op, sides) => {
                let (left, right) = (sides.0.eval(row, scope)?, sides.1.eval(row, scope)?);
                if left.is_null() || right.is_null() {
                    return Ok(Datum::Null);
                }
                Datum::Bool(op.holds(left.compare(&right)?))
            }
            Expr::Distinct(sides, negated) => {
                let (left, right) = (sides.0.eval(row, scope)?, sides.1.eval(row, scope)?);
                Datum::Bool(left.compare(&right)?.is_ne() != *negated)
            }
            Expr::And(all) => {
                let mut result = Datum::Bool(true);
                for part in all {
                    match part.eval(row, scope)? {
                        Datum::Bool(false) => return Ok(Datum::Bool(false)),
                        Datum::Null => result = Datum::Null,
                        _ => {}
                    }
                }
                result
            }
            Expr::Or(any) => {
                let mut result = Datum::Bool(false);
                for part in any {
                    match part.eval(row, scope)? {
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        Datum::Null => result = Datum::Null,
                        _ => {}
                    }
                }
                result
            }
            Expr::Not(inner) => match inner.eval(row, scope)? {
                Datum::Bool(b) => Datum::Bool(!b),
                _ => Datum::Null,
            },
            Expr::IsNull(inner, negated) => {
                let value = inner.eval(row, scope)?;
                Datum::Bool(if *negated { value.tests_not_null() } else { value.tests_null() })
            }
            Expr::IsBool(inner, value, negated) => {
                Datum::Bool((inner.eval(row, scope)? == Datum::Bool(*value)) != *negated)
            }
            Expr::In(needle, list, negated) => {
                let needle = needle.eval(row, scope)?;
                if needle.is_null() {
                    return Ok(Datum::Null);
                }
                let mut result = Datum::Bool(*negated);
                for item in list {
                    let item = item.eval(row, scope)?;
                    if item.is_null() {
                        result = Datum::Null;
                    } else if needle.compare(&item)?.is_eq() {
                        return Ok(Datum::Bool(!negated));
                    }
                }
                result
            }
            Expr::Each(op, quantifier, sides) => {
                let (left, right) = (sides.0.eval(row, scope)?, sides.1.eval(row, scope)?);
                let Datum::Array(array) = right else { return Ok(Datum::Null) };
                let decisive = *quantifier == Quantifier::Any;
                let mut result = Datum::Bool(!decisive);
                for value in array.values() {
                    if left.is_null() || value.is_null() {
                        result = Datum::Null;
                    } else if op.holds(left.compare(value)?) == decisive {
                        return Ok(Datum::Bool(decisive));
                    }
                }
                result
            }
            Expr::Array(parts, element) => {
                let parts = parts.iter().map(|part| part.eval(row, scope));
                Datum::Array(Arc::new(Array::of_parts(*element, parts.collect::<Result<_, _>>()?)?))
            }
            Expr::Row(parts, shape) => {
                let values = evaluate(parts, row, scope)?;
                Datum::Record(Arc::new(Record::new(shape.clone(), values)?))
            }
            Expr::Field(inner, at) => match inner.eval(row, scope)? {
                Datum::Record(record) => record.values().get(*at).cloned().unwrap_or(Datum::Null),
                _ => Datum::Null,
            },
            Expr::Like { text, pattern, escape, negated, fold } => {
                let mut values = Values::of(scope);
                values.add(text.eval(row, scope)?)?;
                values.add(pattern.eval(row, scope)?)?;
                values.call(|values| match values {
                    [Datum::Text(text), Datum::Text(pattern)] => {
                        let matched = if *fold {
                            function::like(&text.to_lowercase(), pattern, *escape, true)
                        } else {
                            function::like(text, pattern, *escape, false)
                        };
                        Datum::Bool(matched != *negated)
                    }
                    _ => Datum::Null,
                })
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if condition.holds(row, scope)? {
                        return result.eval(row, scope);
                    }
                }
                otherwise.eval(row, scope)?
            }
            Expr::Coalesce(all) => {
                for part in all {
                    let datum = part.eval(row, scope)?;
                    if !datum.is_null() {
                        return Ok(datum);
                    }
                }
                Datum::Null
            }
            Expr::Cast(inner, ty, how) => {
                cast::cast(inner.eval(row, scope)?, *ty, how.explicit, scope.local())?
            }
            Expr::Domain(inner, domain) => {
                let value = inner.eval(row, scope)?;
                domain.check(&value, scope.session)?;
                value
            }
            // The arguments are in memory until the function has returned.
            Expr::Call(function, args) => {
                let mut values = Values::of(scope);
                args.iter().try_for_each(|arg| values.add(arg.eval(row, scope)?))?;
                values.call(|values| function.call(values, scope))?
            }
            Expr::Subquery(_) => {
                return Err(SqlError::new(state::INTERNAL, "a subquery has no value by itself"));
            }
        })
    }

    /// True if its value is true (not false and not NULL).
    ///
    /// Of a conjunction, what follows the first part that is not true is not evaluated.
    pub(crate) fn holds(&self, row: &[Datum], scope: &Scope<'_>) -> Result<bool, SqlError> {
        match self {
            Expr::And(all) => {
                for part in all {
                    if !part.holds(row, scope)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            other => Ok(other.eval(row, scope)? == Datum::Bool(true)),
        }
    }

    /// Calls `visit` for this expression and everything inside, except inside subqueries.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Expr)) {
        interrupt::step();
        visit(self);
        match self {
            Expr::Const(_) | Expr::Param(_) | Expr::Column(_) | Expr::Subquery(_) => {}
            Expr::Arith(_, _, sides)
            | Expr::Compare(_, sides)
            | Expr::Each(_, _, sides)
            | Expr::Distinct(sides, _) => {
                sides.0.walk(visit);
                sides.1.walk(visit);
            }
            Expr::And(all)
            | Expr::Or(all)
            | Expr::Coalesce(all)
            | Expr::Call(_, all)
            | Expr::Array(all, _)
            | Expr::Row(all, _) => {
                all.iter().for_each(|part| part.walk(visit));
            }
            Expr::Not(inner)
            | Expr::IsNull(inner, _)
            | Expr::IsBool(inner, _, _)
            | Expr::Domain(inner, _)
            | Expr::Field(inner, _)
            | Expr::Cast(inner, _, _) => {
                inner.walk(visit);
            }
            Expr::In(needle, list, _) => {
                needle.walk(visit);
                list.iter().for_each(|item| item.walk(visit));
            }
            Expr::Like { text, pattern, .. } => {
                text.walk(visit);
                pattern.walk(visit);
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    condition.walk(visit);
                    result.walk(visit);
                }
                otherwise.walk(visit);
            }
        }
    }

    /// Returns its operands.
    pub(crate) fn children_mut(&mut self) -> Vec<&mut Expr> {
        interrupt::step();
        match self {
            Expr::Const(_) | Expr::Param(_) | Expr::Column(_) | Expr::Subquery(_) => Vec::new(),
            Expr::Arith(_, _, sides)
            | Expr::Compare(_, sides)
            | Expr::Each(_, _, sides)
            | Expr::Distinct(sides, _) => {
                vec![&mut sides.0, &mut sides.1]
            }
            Expr::And(all)
            | Expr::Or(all)
            | Expr::Coalesce(all)
            | Expr::Call(_, all)
            | Expr::Array(all, _)
            | Expr::Row(all, _) => all.iter_mut().collect(),
            Expr::Not(inner)
            | Expr::IsNull(inner, _)
            | Expr::IsBool(inner, _, _)
            | Expr::Domain(inner, _)
            | Expr::Field(inner, _)
            | Expr::Cast(inner, _, _) => vec![inner],
            Expr::In(needle, list, _) => {
                std::iter::once(&mut **needle).chain(list.iter_mut()).collect()
            }
            Expr::Like { text, pattern, .. } => vec![text, pattern],
            Expr::Case { branches, otherwise } => branches
                .iter_mut()
                .flat_map(|(condition, result)| [condition, result])
                .chain(std::iter::once(&mut **otherwise))
                .collect(),
        }
    }

    /// Calls `f` for each of its parts, then for the expression itself.
    pub(crate) fn rewrite(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        self.children_mut().into_iter().for_each(|part| part.rewrite(f));
        f(self);
    }

    /// True if it needs no column of the row, so that the value is known when the statement starts.
    pub(crate) fn is_row_free(&self) -> bool {
        let mut free = true;
        self.walk(&mut |part| {
            free &= match part {
                Expr::Column(_) => false,
                Expr::Call(function, _) => function.volatility != Volatility::Volatile,
                _ => true,
            }
        });
        free
    }

    /// Marks the columns that it reads.
    pub(crate) fn mark(&self, wanted: &mut [bool]) {
        self.walk(&mut |part| {
            if let Expr::Column(at) = part
                && let Some(slot) = wanted.get_mut(*at)
            {
                *slot = true;
            }
        });
    }
}
