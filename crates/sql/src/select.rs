//! SELECT over at most one table: filter, groups, order, limit.

use crate::access::{Access, Target, Wish};
use crate::aggregate::{Aggregate, Groups};
use crate::bind::{Binder, Grouping, bind_items, position};
use crate::catalog::Table;
use crate::clauses;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{self, Expr, Scope};
use crate::key;
use crate::kv;
use crate::logical::ColumnId;
use crate::memory::{Held, weight};
use crate::names;
use crate::physical::{SortBy, rows_of};
use crate::response::Column;
use crate::scan::{Cursor, Found};
use crate::system;
use crate::turn::{self, Turn};
use crate::types::Type;
use meridian_mvcc::KeyRange;
use meridian_txn::{Failure, Lock, Locking, Transaction};
use sqlparser::ast::{self, GroupByExpr, SetExpr};
use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The size at which a chunk of a result ends, in bytes.
const CHUNK_BYTES: usize = 4 << 20;

/// A compiled SELECT.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) table: Option<Arc<Table>>,
    access: Access,
    filter: Option<Expr>,
    wanted: Vec<bool>,
    pub(crate) lock: Lock,
    /// The action of FOR UPDATE and FOR SHARE at locked rows.
    on_locked: OnLocked,
    /// True with FOR UPDATE or FOR SHARE.
    keeps: bool,
    groups: Option<(Vec<Expr>, Vec<Aggregate>)>,
    having: Option<Expr>,
    outputs: Vec<Expr>,
    sort: Vec<Sort>,
    reverse: bool,
    distinct: bool,
    limit: Option<Expr>,
    offset: Option<Expr>,
    pub(crate) columns: Arc<[Column]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(crate) expr: Expr,
    descending: bool,
    nulls_first: bool,
}

impl Sort {
    /// Returns it as the order of a column, if it is that.
    fn by_column(&self) -> Option<SortBy> {
        match self.expr {
            Expr::Column(column) => {
                Some(SortBy { column, descending: self.descending, nulls_first: self.nulls_first })
            }
            _ => None,
        }
    }
}

/// Returns the one table that a query reads, if the simple path can run it at all: `None`
/// sends it to the plan of its query.
pub(crate) fn source(
    query: &ast::Query,
) -> Option<Option<(&ast::ObjectName, Option<&ast::TableAlias>)>> {
    let select = clauses::plain_select(query)?;
    if matches!(select.distinct, Some(ast::Distinct::On(_))) {
        return None;
    }
    match select.from.as_slice() {
        [] => Some(None),
        [only] if only.joins.is_empty() => clauses::plain_table(&only.relation).map(Some),
        _ => None,
    }
}

/// Compiles a query over the table that [`source`] found.
pub(crate) fn compile(binder: &mut Binder, query: &ast::Query) -> Result<Select, SqlError> {
    let SetExpr::Select(select) = &*query.body else {
        return Err(SqlError::unsupported("this query"));
    };
    let table = binder.relations().first().and_then(|relation| relation.table.clone());
    binder.begin_clause("WHERE", false);
    let filter =
        select.selection.as_ref().map(|filter| binder.bind_bool(filter, "WHERE")).transpose()?;
    let GroupByExpr::Expressions(group_by, _) = &select.group_by else {
        return Err(SqlError::unsupported("GROUP BY ALL"));
    };
    binder.begin_clause("SELECT", true);
    let mut items = bind_items(binder, &select.projection)?;
    for item in &mut items {
        item.typed.ty.get_or_insert(Type::Text);
    }
    let grouping = binder.bind_group_by(group_by, &items)?;
    if grouping.sets.is_some() {
        return Err(SqlError::unsupported("GROUP BY of several sets here"));
    }
    let columns: Vec<Column> = items.iter().map(|item| item.column(binder)).collect();
    let mut outputs: Vec<Expr> = items.into_iter().map(|item| item.typed.expr).collect();
    let mut having = select.having.as_ref().map(|having| binder.bind_having(having)).transpose()?;
    let mut sort = Vec::new();
    if let Some(order) = &query.order_by {
        let ast::OrderByKind::Expressions(all) = &order.kind else {
            return Err(SqlError::unsupported("ORDER BY ALL"));
        };
        for by in all {
            let descending = by.options.asc == Some(false);
            let nulls_first = by.options.nulls_first.unwrap_or(descending);
            let named = match &by.expr {
                ast::Expr::Identifier(ident) => {
                    let name = names::fold(ident);
                    columns.iter().position(|column| column.name == name)
                }
                expr => position(expr, outputs.len(), "ORDER BY")?,
            };
            let expr = match named {
                Some(at) => outputs[at].clone(),
                None => binder.bind_free(&by.expr)?.expr,
            };
            sort.push(Sort { expr, descending, nulls_first });
        }
    }
    let is_distinct = matches!(select.distinct, Some(ast::Distinct::Distinct));
    if is_distinct && sort.iter().any(|sort| !outputs.contains(&sort.expr)) {
        let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
        return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
    }
    let aggregates = binder.end_clause();
    let grouped = !group_by.is_empty() || select.having.is_some() || !aggregates.is_empty();
    let groups = grouped.then(|| {
        let over =
            outputs.iter_mut().chain(&mut having).chain(sort.iter_mut().map(|s| &mut s.expr));
        group(binder, grouping, aggregates, over.collect())
    });
    let groups = groups.transpose()?;
    binder.begin_clause("LIMIT", false);
    let count = |binder: &mut Binder, expr: &Option<&ast::Expr>, clause: &str| {
        let Some(expr) = expr else { return Ok(None) };
        let bound = binder.bind(expr)?;
        let count = binder.coerce(bound, Type::Int8, false)?;
        let mut varies = false;
        count.walk(&mut |part| varies |= matches!(part, Expr::Column(_)));
        if varies {
            let message = format!("argument of {clause} must not contain variables");
            return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message)
                .at(names::expr_position(expr)));
        }
        Ok(Some(count))
    };
    let (limit, offset) = match &query.limit_clause {
        Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
            (limit.as_ref(), offset.as_ref().map(|o| &o.value))
        }
        Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        None => (None, None),
    };
    let (limit, offset) = (count(binder, &limit, "LIMIT")?, count(binder, &offset, "OFFSET")?);
    // The last place is for the row's commit timestamp.
    let mut wanted = vec![false; table.as_ref().map_or(0, |table| table.columns.len() + 1)];
    filter.iter().for_each(|expr| expr.mark(&mut wanted));
    match &groups {
        Some((keys, aggregates)) => {
            keys.iter()
                .chain(aggregates.iter().flat_map(Aggregate::exprs))
                .for_each(|expr| expr.mark(&mut wanted));
        }
        None => outputs
            .iter()
            .chain(sort.iter().map(|s| &s.expr))
            .for_each(|expr| expr.mark(&mut wanted)),
    }
    // The order that an access path may give; one of expressions none does.
    let by = match groups {
        Some(_) => None,
        None => sort.iter().map(Sort::by_column).collect::<Option<Vec<_>>>(),
    };
    let access = match &table {
        Some(table) => {
            let rows = (!is_distinct).then(|| rows_of(&limit, &offset)).flatten();
            let order = by.as_deref().unwrap_or(&[]);
            let filter = filter.as_ref();
            Access::choose_for(
                table,
                &Wish { filter, order, rows, by_key: !query.locks.is_empty() },
            )
        }
        None => Access::whole(),
    };
    let mut reverse = false;
    if let (Some(table), Some(by)) = (&table, &by)
        && let Some(backwards) = access.order(table, by)
    {
        reverse = backwards;
        sort.clear();
    }
    let exclusive = query.locks.iter().any(|lock| matches!(lock.lock_type, ast::LockType::Update));
    if !query.locks.is_empty() && groups.is_some() {
        return Err(SqlError::unsupported("FOR UPDATE with GROUP BY or aggregate functions"));
    }
    let on_locked = OnLocked::of(binder, query)?;
    if on_locked == OnLocked::Skip && select.distinct.is_some() {
        return Err(SqlError::unsupported("SKIP LOCKED with DISTINCT"));
    }
    if on_locked == OnLocked::Skip
        && table.as_ref().is_some_and(|table| wanted[table.columns.len()])
    {
        return Err(SqlError::unsupported("SKIP LOCKED with meridian_commit_timestamp"));
    }
    if on_locked == OnLocked::Skip {
        // Each row is read again under its lock, and the filter and the outputs use its new values.
        let columns = table.as_ref().map_or(0, |table| table.columns.len());
        wanted[..columns].fill(true);
    }
    Ok(Select {
        access,
        filter,
        wanted,
        lock: if exclusive { Lock::Exclusive } else { Lock::Shared },
        on_locked,
        keeps: !query.locks.is_empty(),
        groups,
        having,
        outputs,
        sort,
        reverse,
        distinct: matches!(select.distinct, Some(ast::Distinct::Distinct)),
        limit,
        offset,
        columns: columns.into(),
        table,
    })
}

/// Turns the expressions of a grouped query into ones over a group's keys and aggregates.
fn group(
    binder: &mut Binder,
    mut grouping: Grouping,
    aggregates: Vec<(ColumnId, Aggregate)>,
    over: Vec<&mut Expr>,
) -> Result<(Vec<Expr>, Vec<Aggregate>), SqlError> {
    binder.add_dependent_keys(&mut grouping, &over);
    let known = aggregates.iter().map(|(id, _)| *id).collect();
    binder.check_direct(&aggregates, &grouping, &known)?;
    let keys = &grouping.keys;
    for expr in over {
        binder.use_groups(expr, keys, &known)?;
        expr.replace_columns(&|id| {
            let aggregate = || aggregates.iter().position(|(aggregate, _)| *aggregate == id);
            let key = keys.iter().position(|key| key.id == id);
            key.or_else(|| aggregate().map(|at| keys.len() + at)).map(Expr::Column)
        });
    }
    let keys = grouping.keys.into_iter().map(|key| key.expr).collect();
    Ok((keys, aggregates.into_iter().map(|(_, aggregate)| aggregate).collect()))
}

/// A running SELECT.
pub(crate) struct Running {
    cursor: Option<Cursor>,
    ready: VecDeque<Vec<Datum>>,
    /// Rows as they were read, before filter and outputs.
    found: VecDeque<Found>,
    skip: u64,
    left: u64,
    done: bool,
    /// The memory that gathered rows hold.
    held: Option<Box<Held>>,
}

/// Compares rows by their sort keys.
fn compare(sort: &[Sort], a: &[Datum], b: &[Datum]) -> Ordering {
    for (sort, (a, b)) in sort.iter().zip(a.iter().zip(b)) {
        let order = match (a.is_null(), b.is_null()) {
            (false, false) if sort.descending => b.order(a),
            (false, false) => a.order(b),
            (a, b) if sort.nulls_first => b.cmp(&a),
            (a, b) => a.cmp(&b),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

impl Select {
    pub(crate) fn explain(&self) -> Vec<String> {
        let mut lines = vec![match &self.table {
            Some(table) => format!(
                "{}{}",
                self.access.explain(table),
                if self.reverse { " backwards" } else { "" }
            ),
            None => "Result".into(),
        }];
        if self.groups.is_some() {
            lines.push("Group and aggregate".into());
        }
        if !self.sort.is_empty() {
            lines.push("Sort".into());
        }
        lines
    }

    fn count(expr: &Option<Expr>, scope: &Scope<'_>, what: &str) -> Result<Option<u64>, SqlError> {
        let Some(expr) = expr else { return Ok(None) };
        match expr.eval(&[], scope)?.as_i64() {
            Some(n) if n < 0 => Err(SqlError::new(
                if what == "LIMIT" { state::INVALID_LIMIT } else { "2201X" },
                format!("{what} must not be negative"),
            )),
            n => Ok(n.map(|n| n as u64)),
        }
    }

    /// Starts it; rows come from [`Select::fetch`].
    pub(crate) fn start(&self, scope: &Scope<'_>) -> Result<Running, SqlError> {
        let cursor = match &self.table {
            Some(table) if system::is_system(table.id) => Some(Cursor::made(scope.session.clone())),
            Some(table) => {
                let targets = self.access.targets(table, scope)?;
                Some(Cursor::new(self.access.index, targets, self.reverse).keeping(self.keeps))
            }
            None => None,
        };
        Ok(Running {
            cursor,
            ready: VecDeque::new(),
            found: VecDeque::new(),
            skip: Self::count(&self.offset, scope, "OFFSET")?.unwrap_or(0),
            left: Self::count(&self.limit, scope, "LIMIT")?.unwrap_or(u64::MAX),
            done: false,
            held: None,
        })
    }

    /// Returns the range of a table's rows that contains all its reads; `None` if there are
    /// several, or if it reads through an index.
    pub(crate) fn scope(&self, scope: &Scope<'_>) -> Result<Option<KeyRange>, SqlError> {
        let table = self
            .table
            .as_ref()
            .filter(|table| !system::is_system(table.id) && self.access.index.is_none());
        let Some(table) = table else { return Ok(None) };
        let mut targets = self.access.targets(table, scope)?;
        Ok(match (targets.pop(), targets.is_empty()) {
            (Some(Target::Point(key)), true) => Some(KeyRange::point(key)),
            (Some(Target::Range(range)), true) => Some(range),
            _ => None,
        })
    }

    /// True if a read-only transaction can run it.
    pub(crate) fn only_reads(&self) -> bool {
        self.lock == Lock::Shared && self.on_locked == OnLocked::Wait
    }

    fn accepts(&self, row: &[Datum], scope: &Scope<'_>) -> Result<bool, SqlError> {
        self.filter.as_ref().map_or(Ok(true), |filter| filter.holds(row, scope))
    }

    /// Keeps a row as it is until the transaction has committed, if the query asks for that.
    fn keep(&self, txn: &mut dyn Transaction, found: &Found) -> Result<(), SqlError> {
        match &found.value {
            Some(value) if self.keeps => Ok(txn.keep(&found.key, value)?),
            _ => Ok(()),
        }
    }

    fn output(&self, row: &[Datum], scope: &Scope<'_>) -> Result<Vec<Datum>, SqlError> {
        expr::evaluate(&self.outputs, row, scope)
    }

    /// Returns the next rows, at most `max`, and true if they are the last.
    pub(crate) async fn fetch(
        &self,
        running: &mut Running,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
        max: usize,
    ) -> Result<(Vec<Vec<Datum>>, bool), SqlError> {
        if self.on_locked != OnLocked::Wait
            && self.table.as_ref().is_some_and(|table| !system::is_system(table.id))
        {
            if self.on_locked == OnLocked::Skip && !running.done {
                running.ready = self.lock_free_rows(running, txn, scope).await?.into();
                running.done = true;
            }
            if !txn.set_locking(Locking::NoWait) {
                return Err(SqlError::unsupported(
                    "NOWAIT in a database whose protocol takes no locks and has readers wait",
                ));
            }
        }
        let whole =
            self.groups.is_some() || !self.sort.is_empty() || self.distinct || self.table.is_none();
        if whole && !running.done {
            running.ready = self.gather(running, txn, scope).await?.into();
            running.done = true;
        }
        let (mut rows, mut bytes, mut turn) = (Vec::new(), 0, Turn::new(scope.session.clock));
        while rows.len() < max && running.left > 0 && bytes < CHUNK_BYTES {
            turn.pause(1).await;
            // Outputs are computed only for returned rows, so that wide ones do not accumulate.
            let row = match running.ready.pop_front() {
                Some(row) => Some(row),
                None => match running.found.pop_front() {
                    Some(found) if !self.accepts(&found.row, scope)? => continue,
                    Some(found) => {
                        self.keep(txn, &found)?;
                        Some(self.output(&found.row, scope)?)
                    }
                    None => None,
                },
            };
            if let Some(row) = row {
                if running.skip > 0 {
                    running.skip -= 1;
                } else {
                    running.left -= 1;
                    bytes += weight(&row);
                    rows.push(row);
                }
                continue;
            }
            let (false, Some(cursor), Some(table)) =
                (running.done, &mut running.cursor, &self.table)
            else {
                break;
            };
            let need = running.skip.saturating_add(running.left).min((max - rows.len()) as u64);
            // A filter may reject rows; without one, no more rows are read than needed.
            let limit = if self.filter.is_some() && self.access.spans.is_empty() {
                1000
            } else {
                need.clamp(1, 4000) as usize
            };
            let found = cursor.next(txn, table, &self.wanted, self.lock, limit).await?;
            running.done = found.is_empty();
            running.found.extend(found);
        }
        let over = running.left == 0
            || (running.done && running.ready.is_empty() && running.found.is_empty());
        Ok((rows, over))
    }

    /// Returns all rows, and the memory that they hold.
    pub(crate) async fn all(
        &self,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
    ) -> Result<(Vec<Vec<Datum>>, Held), SqlError> {
        let mut running = self.start(scope)?;
        let (mut rows, mut held) = (Vec::new(), Held::none(&scope.session.memory));
        loop {
            let (more, over) = self.fetch(&mut running, txn, scope, 4000).await?;
            held.add(more.iter().map(|row| weight(row)).sum())?;
            rows.extend(more);
            if over {
                return Ok((rows, held));
            }
        }
    }

    /// Reads all rows at once, if the result depends on all of them.
    async fn gather(
        &self,
        running: &mut Running,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        let groups = self.groups.as_ref();
        let mut groups = groups.map(|(keys, aggregates)| Groups::new(keys, aggregates, None));
        let held = running.held.insert(Box::new(Held::none(&scope.session.memory)));
        let mut sorting = Sorting::new(self, running.skip.saturating_add(running.left));
        let mut turn = Turn::new(scope.session.clock);
        let mut take = |row: &[Datum]| match &mut groups {
            Some(groups) => groups.add(row, scope, held),
            None => sorting.add(row, scope, held),
        };
        match (&mut running.cursor, &self.table) {
            (Some(cursor), Some(table)) => loop {
                let found = cursor.next(txn, table, &self.wanted, self.lock, 4000).await?;
                if found.is_empty() {
                    break;
                }
                for found in found {
                    if self.accepts(&found.row, scope)? {
                        self.keep(txn, &found)?;
                        take(&found.row)?;
                    }
                    turn.pause(1).await;
                }
            },
            _ if self.accepts(&[], scope)? => take(&[])?,
            _ => {}
        }
        if let Some(groups) = groups {
            for row in groups.finish(held)? {
                if self.having.as_ref().map_or(Ok(true), |having| having.holds(&row, scope))? {
                    sorting.add(&row, scope, held)?;
                }
                turn.pause(1).await;
            }
        }
        Ok(sorting.finish(&mut turn).await)
    }
}

/// The action of FOR UPDATE and FOR SHARE at locked rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLocked {
    /// Wait for the lock.
    Wait,
    /// NOWAIT: fail.
    Fail,
    /// SKIP LOCKED: leave the row out.
    Skip,
}

impl OnLocked {
    fn of(binder: &Binder, query: &ast::Query) -> Result<OnLocked, SqlError> {
        let mut on_locked = OnLocked::Wait;
        for ast::LockClause { lock_type: _, of, nonblock } in &query.locks {
            if let Some(of) = of {
                let name = names::relation(of)?;
                if !binder
                    .relations()
                    .iter()
                    .any(|relation| relation.alias.as_deref() == Some(&*name))
                {
                    let message = format!(
                        "relation \"{name}\" in FOR UPDATE clause not found in FROM clause"
                    );
                    return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                }
            }
            on_locked = match nonblock {
                None => on_locked,
                Some(ast::NonBlock::Nowait) => OnLocked::Fail,
                Some(ast::NonBlock::SkipLocked) => OnLocked::Skip,
            };
        }
        Ok(on_locked)
    }
}

/// `FOR UPDATE SKIP LOCKED`: finds rows without locks, then locks them one by one, in order, until
/// there are enough. So only returned rows are locked, with their values under the lock. Rows that
/// are inserted meanwhile are not seen.
impl Select {
    async fn lock_free_rows(
        &self,
        running: &mut Running,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        if !txn.set_locking(Locking::None) {
            return Err(SqlError::unsupported(
                "SKIP LOCKED in a database whose protocol takes no locks",
            ));
        }
        let (Some(cursor), Some(table)) = (&mut running.cursor, &self.table) else {
            return Ok(Vec::new());
        };
        let held = running.held.insert(Box::new(Held::none(&scope.session.memory)));
        let most = running.skip.saturating_add(running.left);
        let (mut rows, mut over) = (Vec::new(), most == 0);
        while !over {
            txn.set_locking(Locking::None);
            let limit = if self.sort.is_empty() { most.clamp(1, 1000) as usize } else { 4000 };
            let mut found = cursor.next(txn, table, &self.wanted, self.lock, limit).await?;
            over = found.is_empty();
            if !self.sort.is_empty() {
                found = self.sorted(found, cursor, txn, scope, held).await?;
                over = true;
            }
            for candidate in found {
                if !self.accepts(&candidate.row, scope)? {
                    continue;
                }
                txn.set_locking(Locking::NoWait);
                let row = match txn.get(&candidate.key, self.lock).await {
                    Err(Failure::Locked) => continue,
                    Err(error) => return Err(error.into()),
                    // It has been deleted since.
                    Ok(None) => continue,
                    Ok(Some(value)) => crate::row::decode(
                        table,
                        &candidate.key[kv::PREFIX..],
                        &value,
                        &self.wanted,
                    )?,
                };
                if self.accepts(&row, scope)? {
                    let shown = self.output(&row, scope)?;
                    held.add(weight(&shown))?;
                    rows.push(shown);
                }
                if rows.len() as u64 >= most {
                    return Ok(rows);
                }
            }
        }
        Ok(rows)
    }

    /// Returns all candidates, in order.
    async fn sorted(
        &self,
        first: Vec<Found>,
        cursor: &mut Cursor,
        txn: &mut dyn Transaction,
        scope: &Scope<'_>,
        held: &mut Held,
    ) -> Result<Vec<Found>, SqlError> {
        let (Some(table), mut all, mut found) = (&self.table, Vec::new(), first) else {
            return Ok(Vec::new());
        };
        let mut turn = Turn::new(scope.session.clock);
        while !found.is_empty() {
            for candidate in found {
                turn.pause(1).await;
                if self.accepts(&candidate.row, scope)? {
                    let by = self
                        .sort
                        .iter()
                        .map(|sort| sort.expr.eval(&candidate.row, scope))
                        .collect::<Result<Vec<_>, _>>()?;
                    held.add(weight(&by) + weight(&candidate.row))?;
                    all.push((by, candidate));
                }
            }
            found = cursor.next(txn, table, &self.wanted, self.lock, 4000).await?;
        }
        turn::sort(&mut all, &mut turn, |(a, _), (b, _)| compare(&self.sort, a, b)).await;
        Ok(all.into_iter().map(|(_, candidate)| candidate).collect())
    }
}

/// Rows of a result that are being sorted.
struct Sorting<'a> {
    select: &'a Select,
    /// The sort keys and the outputs of each row.
    rows: Vec<(Vec<Datum>, Vec<Datum>)>,
    /// The number of rows that are wanted, from the first.
    most: usize,
    /// For DISTINCT: the rows seen so far.
    seen: BTreeSet<Vec<u8>>,
}

impl<'a> Sorting<'a> {
    /// Half of the number of rows below which none is dropped.
    const FEW: usize = 100;

    fn new(select: &'a Select, most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Sorting { select, rows: Vec::new(), most, seen: BTreeSet::new() }
    }

    fn add(&mut self, row: &[Datum], scope: &Scope<'_>, held: &mut Held) -> Result<(), SqlError> {
        let shown = self.select.output(row, scope)?;
        if self.select.distinct {
            let mut bytes = Vec::new();
            shown.iter().for_each(|datum| key::write(datum, false, &mut bytes));
            held.add(bytes.len() + 48)?;
            if !self.seen.insert(bytes) {
                return Ok(());
            }
        }
        let by = self
            .select
            .sort
            .iter()
            .map(|sort| sort.expr.eval(row, scope))
            .collect::<Result<Vec<_>, _>>()?;
        held.add(weight(&by) + weight(&shown))?;
        self.rows.push((by, shown));
        // At twice the wanted number, half of the rows are dropped.
        if self.rows.len() >= self.most.max(Self::FEW).saturating_mul(2) {
            self.sort();
            for (by, shown) in self.rows.drain(self.most..) {
                held.free(weight(&by) + weight(&shown));
            }
        }
        Ok(())
    }

    fn sort(&mut self) {
        let sort = &self.select.sort;
        self.rows.sort_by(|(a, _), (b, _)| compare(sort, a, b));
    }

    async fn finish(mut self, turn: &mut Turn) -> Vec<Vec<Datum>> {
        let sort = &self.select.sort;
        turn::sort(&mut self.rows, turn, |(a, _), (b, _)| compare(sort, a, b)).await;
        self.rows.into_iter().map(|(_, shown)| shown).collect()
    }
}
