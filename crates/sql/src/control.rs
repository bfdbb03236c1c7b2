//! Statements about the session: transaction control, SET, SHOW.

use crate::bind;
use crate::catalog::Table;
use crate::compile::Compiled;
use crate::consistency;
use crate::constraint::Deferral;
use crate::datetime::{self, Zone, timestamp_to_text};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::names::{self, Qualified};
use crate::notify;
use crate::parse::{AlterDatabase, SetConstraints};
use crate::response::{Column, Response, Status};
use crate::session::Session;
use crate::settings;
use crate::split;
use crate::system::{self, ServerInfo};
use crate::two_phase;
use crate::types::Type;
use crate::work::{Marks, Step, Work};
use meridian_clock::{Timestamp, duration};
use meridian_txn::{IsolationLevel, Mode, SnapshotAge};
use sqlparser::ast::{
    self, ObjectType, Reset, Set, Statement, TransactionAccessMode, TransactionMode,
};
use std::sync::Arc;

/// Returns the server information for a statement on databases, which cannot be part of a
/// transaction.
pub(crate) async fn outside(
    session: &mut Session,
    what: &str,
) -> Result<Arc<dyn ServerInfo>, SqlError> {
    if session.work.as_ref().is_some_and(|work| work.explicit) {
        return Err(SqlError::new(
            state::ACTIVE_TRANSACTION,
            format!("{what} cannot run inside a transaction block"),
        ));
    }
    session.finish_implicit().await?;
    session.engine.server_info().cloned().ok_or_else(|| SqlError::unsupported(what))
}

fn warning(sqlstate: &'static str, message: &str) -> SqlError {
    SqlError::new(sqlstate, message)
}

pub(crate) async fn run(session: &mut Session, compiled: &Compiled) -> Result<Response, SqlError> {
    let done = |tag: &str| Ok(Response::Complete(tag.into()));
    if let Some(set) = &compiled.source.constraints {
        return set_constraints(session, set).await;
    }
    if let Some(two_phase) = &compiled.source.two_phase {
        two_phase::refuse(session, two_phase)?;
    }
    match &compiled.source.statement {
        Statement::StartTransaction { modes, begin, .. } => {
            let tag = if *begin { "BEGIN" } else { "START TRANSACTION" };
            let level = isolation(session, modes)?;
            if session.work.as_ref().is_some_and(|work| work.explicit) {
                session.notify(warning(
                    state::ACTIVE_TRANSACTION,
                    "there is already a transaction in progress",
                ));
                if let Some(level) = level {
                    session.choose_isolation(level.name())?;
                }
                return done(tag);
            }
            session.finish_implicit().await?;
            let by_default =
                session.facts.settings.get("default_transaction_read_only") == Some("on");
            let mode = match reads_only(modes, by_default) {
                true => session.reading(None).await?,
                false => Mode::ReadWrite,
            };
            let work = session.begin_work(mode, None, true).await?;
            session.slot.begins(work.txn.age());
            session.work = Some(work);
            if let Some(level) = level {
                session.choose_isolation(level.name())?;
            }
            let by_default = session.facts.settings.is_on("default_transaction_deferrable");
            defer(session, compiled.source.deferrable.unwrap_or(by_default))?;
            done(tag)
        }
        Statement::Lock(lock) => {
            let reads_only = block(session, "LOCK TABLE")?.reads_only();
            // What a snapshot reads stays as it is, tables and rows.
            if !reads_only || lock.lock_mode != Some(ast::LockTableMode::AccessShare) {
                return Err(SqlError::unsupported(
                    "LOCK TABLE, but for ACCESS SHARE in a read-only transaction",
                ));
            }
            done("LOCK TABLE")
        }
        // Copied out first, since a reference to the work must not be held across an await.
        Statement::Commit { .. } => match session.status() {
            Status::Failed => {
                session.end_transaction(false);
                done("ROLLBACK")
            }
            Status::InTransaction => {
                let result = session.commit().await;
                session.end_transaction(result.is_ok());
                result?;
                done("COMMIT")
            }
            Status::Idle => {
                session
                    .notify(warning(state::NO_TRANSACTION, "there is no transaction in progress"));
                session.finish_implicit().await?;
                session.end_transaction(true);
                done("COMMIT")
            }
        },
        Statement::Rollback { savepoint: Some(name), .. } => {
            let name = names::fold(name);
            let sequences = session.facts.sequences.clone();
            let work = block(session, "ROLLBACK TO SAVEPOINT")?;
            let marks = work.rollback_to(&name, &sequences)?;
            session.facts.advisory.roll_back(marks.locks);
            session.facts.notifications.roll_back(marks.notifications);
            session.facts.settings_mut().roll_back_to(&name);
            session.cursors.roll_back_to(&name);
            done("ROLLBACK")
        }
        Statement::Rollback { .. } => {
            if !session.work.as_ref().is_some_and(|work| work.explicit) {
                session
                    .notify(warning(state::NO_TRANSACTION, "there is no transaction in progress"));
            }
            session.end_transaction(false);
            done("ROLLBACK")
        }
        Statement::Savepoint { name } => {
            let name = names::fold(name);
            let Facts { advisory, notifications, .. } = &session.facts;
            let marks = Marks { locks: advisory.mark(), notifications: notifications.mark() };
            block(session, "SAVEPOINT")?.savepoint(&name, marks);
            session.facts.settings_mut().savepoint(&name);
            session.cursors.savepoint(&name);
            done("SAVEPOINT")
        }
        Statement::ReleaseSavepoint { name } => {
            let name = names::fold(name);
            block(session, "RELEASE SAVEPOINT")?.release(&name)?;
            session.facts.settings_mut().release(&name);
            session.cursors.release(&name);
            done("RELEASE")
        }
        Statement::Set(set) => {
            apply(session, set, compiled.source.deferrable).await?;
            done("SET")
        }
        Statement::AlterTable(alter) if compiled.source.split.is_some() => {
            let rows = compiled.source.split.clone().unwrap_or_default();
            split::run(session, &alter.name, &rows).await
        }
        Statement::CreateDatabase { db_name, .. } if compiled.source.alter_database.is_some() => {
            let (server_info, name) =
                (outside(session, "ALTER DATABASE").await?, names::simple(db_name)?);
            match compiled.source.alter_database.clone() {
                Some(AlterDatabase::Members(members)) => {
                    server_info.change_members(&name, members).await?
                }
                Some(AlterDatabase::Set(setting, value)) => {
                    set(&*server_info, &name, &setting, value.as_deref()).await?
                }
                None => {}
            }
            done("ALTER DATABASE")
        }
        Statement::CreateDatabase { db_name, if_not_exists, .. } => {
            let server_info = outside(session, "CREATE DATABASE").await?;
            let name = names::simple(db_name)?;
            match server_info.create_database(&name, compiled.source.protocol.as_ref()).await {
                Err(error) if error.sqlstate == state::DUPLICATE_DATABASE && *if_not_exists => {
                    session.notify(warning("00000", &format!("{}, skipping", error.message)));
                }
                other => other?,
            }
            done("CREATE DATABASE")
        }
        Statement::Drop { object_type: ObjectType::Database, if_exists, names, .. } => {
            let server_info = outside(session, "DROP DATABASE").await?;
            for name in names {
                let name = names::simple(name)?;
                if name == session.engine.name() {
                    return Err(SqlError::new(
                        state::OBJECT_IN_USE,
                        "cannot drop the currently open database",
                    ));
                }
                match server_info.drop_database(&name).await {
                    Err(error) if error.sqlstate == state::NO_DATABASE && *if_exists => {
                        session.notify(warning("00000", &format!("{}, skipping", error.message)));
                    }
                    other => other?,
                }
            }
            done("DROP DATABASE")
        }
        Statement::Reset(reset) => {
            match &reset.reset {
                Reset::ALL => session.reset(None)?,
                Reset::ConfigurationParameter(name) => session.reset(Some(&name.to_string()))?,
            }
            done("RESET")
        }
        Statement::ShowVariable { variable } => show(session, variable),
        // A plan that no longer fits is made again where it is used.
        Statement::Discard { object_type: ast::DiscardObject::PLANS } => done("DISCARD PLANS"),
        Statement::Discard { object_type: ast::DiscardObject::SEQUENCES } => {
            session.facts.sequences.clear();
            done("DISCARD SEQUENCES")
        }
        Statement::Discard { object_type: ast::DiscardObject::ALL } => {
            if session.work.as_ref().is_some_and(|work| work.explicit) {
                let message = "DISCARD ALL cannot run inside a transaction block";
                return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
            }
            session.finish_implicit().await?;
            session.facts.temporary.discard()?;
            session.prepared.clear();
            session.portals.clear();
            session.cursors.close(None)?;
            session.reset(None)?;
            session.facts.sequences.clear();
            session.facts.advisory.give_up_session();
            session.facts.notifications.unlisten();
            session.facts.token = Timestamp::ZERO;
            done("DISCARD ALL")
        }
        Statement::Deallocate { name, .. } => {
            if name.value.eq_ignore_ascii_case("all") {
                session.prepared.clear();
            } else {
                let name = names::fold(name);
                session.find(&name)?;
                session.close_statement(&name);
            }
            done("DEALLOCATE")
        }
        Statement::Close { cursor: ast::CloseCursor::All } => {
            session.cursors.close(None)?;
            session.portals.clear();
            done("CLOSE CURSOR ALL")
        }
        Statement::Close { cursor: ast::CloseCursor::Specific { name } } => {
            let name = names::fold(name);
            if session.portals.remove(&name).is_none() {
                session.cursors.close(Some(&name))?;
            }
            done("CLOSE CURSOR")
        }
        statement @ (Statement::LISTEN { .. }
        | Statement::UNLISTEN { .. }
        | Statement::NOTIFY { .. }) => notify::run(session, statement).await,
        other => Err(SqlError::unsupported(other)),
    }
}

fn reads_only(modes: &[TransactionMode], otherwise: bool) -> bool {
    modes.iter().fold(otherwise, |before, mode| match mode {
        TransactionMode::AccessMode(access) => *access == TransactionAccessMode::ReadOnly,
        TransactionMode::IsolationLevel(_) => before,
    })
}

/// Returns the isolation level that modes of transactions ask for. Fails with 0A000 if it is
/// stronger than the database's.
fn isolation(
    session: &Session,
    modes: &[TransactionMode],
) -> Result<Option<IsolationLevel>, SqlError> {
    let mut asked = None;
    for mode in modes {
        let TransactionMode::IsolationLevel(level) = mode else { continue };
        let unknown =
            || SqlError::new(state::SYNTAX, format!("syntax error at or near \"{level}\""));
        let level = IsolationLevel::named(&level.to_string()).ok_or_else(unknown)?;
        session.facts.settings.accept_isolation(level)?;
        asked = Some(level);
    }
    Ok(asked)
}

/// Begins an open transaction block again, so that its snapshot has the age that was set. Fails if
/// it has run a query.
async fn choose_snapshot_again(session: &mut Session) -> Result<(), SqlError> {
    let block = session.work.as_ref().filter(|work| work.explicit);
    let Some((mode, untouched)) = block.map(|work| (work.txn.mode(), work.is_untouched())) else {
        return Ok(());
    };
    if !untouched {
        let message = format!("{} must be set before any query", settings::SNAPSHOT_AGE);
        return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
    }
    begin_again(session, mode).await
}

/// Begins an open transaction block again, which has run nothing.
async fn begin_again(session: &mut Session, mode: Mode) -> Result<(), SqlError> {
    let mut work = session.begin_work(mode, None, true).await?;
    session.slot.begins(work.txn.age());
    if let Some(mut old) = session.work.take() {
        old.journal.retain(|step| matches!(step, Step::Deferral(_)));
        (work.deferral, work.journal) = (old.deferral, old.journal);
    }
    session.work = Some(work);
    let announced = session.facts.notifications.take_pending();
    announced.into_iter().for_each(|action| session.announce(action));
    Ok(())
}

fn block<'a>(session: &'a mut Session, what: &str) -> Result<&'a mut Work, SqlError> {
    session.work.as_mut().filter(|work| work.explicit).ok_or_else(|| {
        SqlError::new(
            state::NO_TRANSACTION,
            format!("{what} can only be used in transaction blocks"),
        )
    })
}

/// Warns that SET LOCAL has no effect outside of a transaction block.
fn warn_outside_block(session: &mut Session) {
    if session.status() == Status::Idle && session.is_alone() {
        let message = "SET LOCAL can only be used in transaction blocks";
        session.notify(warning(state::NO_TRANSACTION, message));
    }
}

async fn apply(session: &mut Session, set: &Set, deferrable: Option<bool>) -> Result<(), SqlError> {
    let text = |expr: &ast::Expr| match expr {
        ast::Expr::Value(value) => {
            value.value.clone().into_string().unwrap_or_else(|| value.to_string())
        }
        ast::Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    };
    match set {
        Set::SingleAssignment { scope, variable, values, .. } => {
            let value = values.iter().map(text).collect::<Vec<_>>().join(", ");
            let name = variable.to_string();
            let local = *scope == Some(ast::ContextModifier::Local);
            session.set_in_transaction(&name, &value, local)?;
            if settings::canonical(&name) == settings::SNAPSHOT_AGE {
                choose_snapshot_again(session).await?;
            }
            if local {
                warn_outside_block(session);
            }
            Ok(())
        }
        // There is one role, and each session has its user's.
        Set::SetRole { role_name: None, .. } => Ok(()),
        Set::SetRole { role_name: Some(role), .. } => itself(session, &role.value, "SET ROLE"),
        Set::SetSessionAuthorization(param) => match &param.kind {
            ast::SetSessionAuthorizationParamKind::Default => Ok(()),
            ast::SetSessionAuthorizationParamKind::User(user) => {
                itself(session, &user.value, "SET SESSION AUTHORIZATION")
            }
        },
        Set::SetTimeZone { local, value } => {
            let name = match value {
                ast::Expr::Interval(literal) => {
                    Zone::of_interval(bind::interval(literal)?)?.name().to_owned()
                }
                ast::Expr::Identifier(ident) if names::fold(ident) == "local" => "default".into(),
                other => text(other),
            };
            session.set_in_transaction(settings::TIME_ZONE, &name, *local)?;
            if *local {
                warn_outside_block(session);
            }
            Ok(())
        }
        Set::SetNames { charset_name, .. } => {
            session.set_in_transaction("client_encoding", &charset_name.value, false)
        }
        Set::SetTransaction { snapshot: Some(_), .. } => {
            Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT"))
        }
        Set::SetTransaction { modes, session: whole, .. } => {
            let level = isolation(session, modes)?;
            if *whole {
                let is_access =
                    |mode: &TransactionMode| matches!(mode, TransactionMode::AccessMode(_));
                let reads_only = modes.iter().any(is_access).then(|| reads_only(modes, false));
                for (setting, on) in [("read_only", reads_only), ("deferrable", deferrable)] {
                    let Some(on) = on else { continue };
                    let (name, value) = (format!("default_transaction_{setting}"), switched(on));
                    session.set_in_transaction(&name, value, false)?;
                }
                if let Some(level) = level {
                    let name = settings::DEFAULT_ISOLATION;
                    session.set_in_transaction(name, level.name(), false)?;
                }
                return Ok(());
            }
            let Some(work) = session.work.as_ref().filter(|work| work.explicit) else {
                let message = "SET TRANSACTION can only be used in transaction blocks";
                session.notices.push_back(warning(state::NO_TRANSACTION, message));
                return Ok(());
            };
            let (before, is_untouched) = (work.reads_only(), work.is_untouched());
            let (ran, has_savepoint) = (work.ran, work.savepoints.newest().is_some());
            if let Some(level) = level {
                session.choose_isolation(level.name())?;
            }
            let now = reads_only(modes, before);
            if now != before {
                if !is_untouched {
                    let message = "transaction read-write mode must be set before any query";
                    return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
                }
                let mode = if now { session.reading(None).await? } else { Mode::ReadWrite };
                begin_again(session, mode).await?;
            }
            let begun = |rest| {
                let message = format!("SET TRANSACTION [NOT] DEFERRABLE {rest}");
                Err(SqlError::new(state::ACTIVE_TRANSACTION, message))
            };
            match deferrable {
                Some(_) if has_savepoint => begun("cannot be called within a subtransaction"),
                Some(_) if ran => begun("must be called before any query"),
                Some(on) => defer(session, on),
                None => Ok(()),
            }
        }
        other => Err(SqlError::unsupported(other)),
    }
}

fn switched(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Makes the open transaction DEFERRABLE, or not. A transaction that only reads never loses a
/// conflict, under any protocol, and begins at once; to others the mode means nothing.
fn defer(session: &mut Session, on: bool) -> Result<(), SqlError> {
    if session.facts.settings.is_on("transaction_deferrable") == on {
        return Ok(());
    }
    session.set_in_transaction("transaction_deferrable", switched(on), true)
}

/// Sets a setting of a database. Of the settings of sessions, for all of which a database of
/// PostgreSQL can have its own defaults, it takes only the consistency mode and the
/// age of snapshots.
async fn set(
    server_info: &dyn ServerInfo,
    database: &str,
    name: &str,
    value: Option<&str>,
) -> Result<(), SqlError> {
    let name = &settings::canonical(name);
    let of_databases = [settings::CONSISTENCY, settings::SNAPSHOT_AGE];
    if settings::is_of_sessions(name) && !of_databases.contains(&name.as_str()) {
        return Err(SqlError::unsupported(format!("ALTER DATABASE … SET {name}"))
            .hint(format!("It is a setting of sessions: SET {name} in each of them.")));
    }
    if let Some(asked) =
        value.filter(|_| name == settings::SNAPSHOT_AGE).and_then(SnapshotAge::parse)
    {
        let kept = server_info.setting(database, consistency::RETENTION).flatten();
        consistency::check_age_is_kept(asked, kept.and_then(|kept| duration::parse(&kept)))?;
    }
    server_info.set(database, name, value).await
}

/// Fails with 0A000 unless `name` is the session's own user.
fn itself(session: &Session, name: &str, what: &str) -> Result<(), SqlError> {
    if name == session.user() || name.eq_ignore_ascii_case("none") {
        return Ok(());
    }
    Err(SqlError::unsupported(format!("{what} {name}")))
}

/// The setting that shows the commit timestamp of the session's newest transaction that wrote, as
/// in Cloud Spanner.
const COMMIT_TIMESTAMP: &str = "meridian.commit_timestamp";

/// The setting that shows what each consistency mode would cost now.
const CONSISTENCY_COST: &str = "meridian.consistency_cost";

/// The setting that shows the age of a snapshot that `auto` stands for now.
const SNAPSHOT_AGE_AUTO: &str = "meridian.snapshot_age_auto";

/// Renders a commit's timestamp as text.
fn shown(at: Timestamp, zone: &Zone) -> Datum {
    let mut text = String::new();
    if let Datum::TimestampTz(micros) = datetime::committed(at) {
        timestamp_to_text(micros, Some(zone), &mut text);
    }
    Datum::text(text)
}

/// Returns the setting's name of a SHOW.
fn name_of_show(variable: &[ast::Ident]) -> String {
    let words: Vec<String> = variable.iter().map(|ident| ident.value.to_lowercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["time", "zone"] => settings::TIME_ZONE.to_owned(),
        ["transaction", "isolation", "level"] => "transaction_isolation".to_owned(),
        ["spanner", own] => format!("meridian.{own}"), // The prefix of earlier versions.
        words => words.join("."),
    }
}

/// Returns the columns of a SHOW.
pub(crate) fn columns_of_show(variable: &[ast::Ident]) -> Arc<[Column]> {
    match name_of_show(variable).as_str() {
        "all" => Arc::from([Column::new("name", Type::Text), Column::new("setting", Type::Text)]),
        "clock" => {
            let table = crate::system::clock_table();
            table.columns.iter().map(|column| Column::new(column.name.clone(), column.ty)).collect()
        }
        CONSISTENCY_COST => {
            Arc::from([Column::new("mode", Type::Text), Column::new("wait_ms", Type::Text)])
        }
        SNAPSHOT_AGE_AUTO => {
            let parts = ["age_ms", "commit_delay_ms", "round_trip_ms", "skew_ms", "commits"];
            parts.iter().map(|part| Column::new(*part, Type::Text)).collect()
        }
        name => Arc::from([Column::new(settings::shown_name(name), Type::Text)]),
    }
}

fn show(session: &Session, variable: &[ast::Ident]) -> Result<Response, SqlError> {
    let (name, columns) = (name_of_show(variable), columns_of_show(variable));
    let rows = |rows| Ok(Response::Rows { columns, rows, done: Some("SHOW".into()) });
    if name == "all" {
        let setting =
            |(name, value)| vec![Datum::text(settings::shown_name(name)), Datum::text(value)];
        return rows(session.facts.settings.all().map(setting).collect());
    }
    if name == "clock" {
        return rows(crate::system::clock_now(&session.facts));
    }
    if name == consistency::CAUSAL_TOKEN {
        let facts = &session.facts;
        return rows(vec![vec![Datum::text(consistency::token_to_text(
            &facts.database,
            facts.token,
        ))]]);
    }
    if name == CONSISTENCY_COST {
        return rows(consistency::costs(&session.facts));
    }
    if name == SNAPSHOT_AGE_AUTO {
        return rows(consistency::auto_age(&session.engine)?);
    }
    if name == COMMIT_TIMESTAMP {
        let zone = session.facts.zone();
        return rows(vec![vec![session.committed_at.map_or(Datum::Null, |at| shown(at, zone))]]);
    }
    if let Some(value) = session.facts.settings.get(&name) {
        return rows(vec![vec![Datum::text(value)]]);
    }
    let of_database = || session.engine.server_info()?.setting(session.engine.name(), &name);
    let Some(value) = of_database() else {
        let mut error = SqlError::new(
            state::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        );
        if let Some(near) =
            names::nearest(&name, session.facts.settings.all().map(|(name, _)| name))
        {
            error = error.hint(format!("Did you mean \"{near}\"?"));
        }
        return Err(error);
    };
    rows(vec![vec![value.map_or(Datum::Null, Datum::text)]])
}

/// Runs SET CONSTRAINTS: checks the obligations that are no longer deferred.
async fn set_constraints(
    session: &mut Session,
    set: &SetConstraints,
) -> Result<Response, SqlError> {
    let tag = || Ok(Response::Complete("SET CONSTRAINTS".into()));
    let Some(work) = session.work.as_mut().filter(|work| work.explicit) else {
        let message = "SET CONSTRAINTS can only be used in transaction blocks";
        session.notify(warning(state::NO_TRANSACTION, message));
        return tag();
    };
    let mut deferral = work.deferral.clone();
    if set.names.is_empty() {
        deferral = Deferral { all: Some(set.deferred), ..Deferral::default() };
    } else {
        let facts = &session.facts;
        let catalog = system::load_unlocked(work.txn.as_mut(), facts).await?;
        for name in &set.names {
            let Qualified { schema, name } = names::relation(name)?;
            let schema = schema.map(|schema| catalog.schema_named(&schema)).transpose()?;
            let is_there = |table: &&Arc<Table>| schema.is_none_or(|id| id == table.schema);
            // The constraints of the name: each with its id if it is DEFERRABLE.
            let tables = catalog.tables.iter().filter(is_there);
            let found: Vec<_> = tables.flat_map(|table| table.deferrable_named(&name)).collect();
            if found.is_empty() {
                let message = format!("constraint \"{name}\" does not exist");
                return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
            }
            for id in found {
                let Some(id) = id else {
                    let message = format!("constraint \"{name}\" is not deferrable");
                    return Err(SqlError::new(state::WRONG_OBJECT, message));
                };
                deferral.named.insert(id, set.deferred);
            }
        }
    }
    work.defer(deferral, session.facts.zone()).await?;
    tag()
}
