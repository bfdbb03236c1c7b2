//! Clients that speak SQL, through real SQL sessions on a simulated node.
//!
//! ```text
//!   lab (k text PRIMARY KEY, v text)      lists are numbers with a space before each; a mark is a row of its own
//! ```
//!
//! Half of the plans with one step are sent as a statement without a transaction block: the server
//! retries such a statement, and replays whole transactions where the client could not tell the
//! difference. Clients receive no commit timestamps: a transaction that wrote has that of its mark,
//! and one that only read is judged by cycles alone.

use crate::client::{MARK, Seen};
use crate::sim_protocol::RequestRouter;
use crate::workload::{OPENING, Plan, Scope, Step};
use crate::world::order::Asked;
use meridian_history::{Op, Status, Value};
use meridian_machine::sometimes;
use meridian_sql::{Datum, Engine, Response, Session, SqlError, state};
use meridian_txn::{Lock, Mode};
use parking_lot::Mutex;
use std::sync::Arc;

/// `w` is in no index: a query that reads it through one reads the rows, too.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS lab (k text PRIMARY KEY, v text NOT NULL, w text)";

const LOOK: &str = "SELECT v FROM lab WHERE k = $1";

type Rows = Vec<Vec<Datum>>;

/// Runs a plan; records its progress in `seen`.
pub async fn attempt<D: RequestRouter>(
    engine: Arc<Engine>,
    router: Arc<D>,
    plan: Plan,
    asked: Asked,
    seen: Arc<Mutex<Seen>>,
) {
    let has_modes = engine.database().consistency().len() > 1;
    let has_ages = engine.database().snapshot_age().is_some();
    let mut session = Session::new(engine, "lab");
    if has_ages {
        let age = asked.snapshot_age.to_string();
        session.set("meridian.snapshot_age", &age).expect("it has ages");
    }
    if has_modes {
        session.set("meridian.consistency", asked.consistency.name()).expect("it has the mode");
        session.learn(asked.token);
    }
    let pipelined = if asked.pipelined { "on" } else { "off" };
    session.set("meridian.pipelined_writes", pipelined).expect("it is a switch");
    let mut client = Client { session, seen: &seen, writes: plan.mode == Mode::ReadWrite };
    let ended = client.transaction(&router, &plan).await;
    seen.lock().token = client.session.token();
    let end = match ended {
        Ok(()) => (Status::Ok, None),
        Err(error) => {
            let mut seen = seen.lock();
            seen.gave_way = error.sqlstate == state::SERIALIZATION;
            seen.why = Some(format!("{} {}", error.sqlstate, error.message));
            // Only the outcome of a commit can be unknown; anything else that failed did not
            // happen.
            let unknown = seen.committing && error.sqlstate == state::COMPLETION_UNKNOWN;
            (if unknown { Status::Info } else { Status::Fail }, None)
        }
    };
    seen.lock().ended = Some(end);
}

struct Client<'a> {
    session: Session,
    seen: &'a Mutex<Seen>,
    writes: bool,
}

fn value(key: &str, text: &str) -> Value {
    let mut numbers =
        text.split_whitespace().map(|number| number.parse().expect("a number was stored"));
    if key.starts_with('l') {
        Value::List(numbers.collect())
    } else {
        numbers.next().map_or(Value::Nothing, Value::Number)
    }
}

fn text(datum: &Datum) -> &str {
    match datum {
        Datum::Text(text) => text,
        other => panic!("expected text, got {other:?}"),
    }
}

impl Client<'_> {
    async fn transaction<D: RequestRouter>(
        &mut self,
        router: &Arc<D>,
        plan: &Plan,
    ) -> Result<(), SqlError> {
        let writes = self.writes;
        if writes {
            self.run(TABLE).await?;
        }
        if let Some(schema) = plan.schema {
            match self.run(schema).await {
                Ok(_) => sometimes!("the schema changes while others use it"),
                Err(_) => sometimes!("a change of the schema gives way"),
            }
        }
        // The statement is planned now and run later, when the schema may have changed.
        self.session.parse(LOOK, LOOK, &[]).await?;
        if let Some(pause_ns) = plan.dawdles_ns {
            router.rest(pause_ns).await;
        }
        if plan.scope == Scope::Negotiated {
            self.run("SET meridian.negotiate_timestamps = on").await?;
        }
        let alone = plan.alone;
        if !alone {
            self.run(if writes { "BEGIN" } else { "BEGIN READ ONLY" }).await?;
        }
        self.seen.lock().committing = alone && writes;
        for step in &plan.steps {
            self.take(router, step).await?;
        }
        if let Some(mark) = plan.mark {
            self.run(&format!("INSERT INTO lab VALUES ('{MARK}{mark}', '{mark}')")).await?;
        }
        if !alone {
            self.seen.lock().committing = true;
            self.run("COMMIT").await?;
        }
        Ok(())
    }

    async fn run(&mut self, sql: &str) -> Result<Rows, SqlError> {
        self.run_with_tag(sql).await.map(|(rows, _)| rows)
    }

    /// Runs a statement, and returns its rows and its tag.
    async fn run_with_tag(&mut self, sql: &str) -> Result<(Rows, String), SqlError> {
        let (mut found, mut last) = (Vec::new(), String::new());
        for response in self.session.simple(sql).await {
            match response {
                Response::Rows { rows, .. } => found.extend(rows),
                Response::Complete(tag) => last = tag,
                Response::Failed(error) => return Err(error),
                _ => {}
            }
        }
        Ok((found, last))
    }

    async fn run_prepared(&mut self, statement: &str, param: &str) -> Result<Rows, SqlError> {
        self.session.bind("", statement, vec![Datum::text(param)])?;
        self.session.ends_next(true);
        let response = self.session.execute("", 0).await;
        let ended = self.session.sync().await;
        match response? {
            Response::Rows { rows, .. } => ended.map(|()| rows),
            other => panic!("expected rows, got {other:?}"),
        }
    }

    fn note(&self, op: Op) {
        self.seen.lock().ops.push(op);
    }

    async fn look(&mut self, key: &str, lock: Lock) -> Result<Value, SqlError> {
        let rows = match lock == Lock::Exclusive && self.writes {
            true => self.run(&format!("SELECT v FROM lab WHERE k = '{key}' FOR UPDATE")).await?,
            false => self.run_prepared(LOOK, key).await?,
        };
        let found = rows.first().map_or(Value::Nothing, |row| value(key, text(&row[0])));
        self.note(Op::Read(key.to_owned(), found.clone()));
        Ok(found)
    }

    async fn write(&mut self, key: &str, number: Option<i64>) -> Result<(), SqlError> {
        self.note(Op::Write(key.to_owned(), number.map_or(Value::Nothing, Value::Number)));
        let Some(number) = number else {
            let (_, tag) = self.run_with_tag(&format!("DELETE FROM lab WHERE k = '{key}'")).await?;
            if tag == "DELETE 0" {
                // It has found nothing, and writes nothing.
                let mut seen = self.seen.lock();
                seen.ops.pop();
                seen.ops.push(Op::Read(key.to_owned(), Value::Nothing));
            }
            return Ok(());
        };
        let statement = format!(
            "INSERT INTO lab VALUES ('{key}', '{number}') ON CONFLICT (k) DO UPDATE SET v = excluded.v"
        );
        self.run(&statement).await.map(drop)
    }

    async fn scan(
        &mut self,
        low: &str,
        high: &str,
        backwards: bool,
    ) -> Result<Vec<(String, Value)>, SqlError> {
        let order = if backwards { "DESC" } else { "ASC" };
        let query = match backwards && !self.writes {
            // Uses the index on v while there is one; both must return the same rows.
            true if low.len().is_multiple_of(2) => "SELECT k, v FROM lab WHERE v >= ''".to_owned(),
            true => "SELECT k, v, w FROM lab WHERE v >= ''".to_owned(),
            false => format!(
                "SELECT k, v FROM lab WHERE k >= '{low}' AND k < '{high}' ORDER BY k {order}"
            ),
        };
        let row =
            |row: &Vec<Datum>| (text(&row[0]).to_owned(), value(text(&row[0]), text(&row[1])));
        let mut rows: Vec<(String, Value)> = self.run(&query).await?.iter().map(row).collect();
        rows.retain(|(key, _)| low <= key.as_str() && key.as_str() < high);
        rows.sort_by(
            |(one, _), (other, _)| if backwards { other.cmp(one) } else { one.cmp(other) },
        );
        self.note(Op::Scan(low.to_owned(), high.to_owned(), rows.clone()));
        Ok(rows)
    }

    async fn take<D: RequestRouter>(
        &mut self,
        router: &Arc<D>,
        step: &Step,
    ) -> Result<(), SqlError> {
        let number =
            |value: &Value| if let Value::Number(number) = value { Some(*number) } else { None };
        match step {
            Step::Read(key, lock) => drop(self.look(key, *lock).await?),
            Step::Append(key, element) => {
                self.note(Op::Append(key.clone(), *element));
                let append = format!(
                    "INSERT INTO lab VALUES ('{key}', ' {element}') ON CONFLICT (k) DO UPDATE SET v = lab.v || ' {element}' RETURNING v"
                );
                let rows = self.run(&append).await?;
                let after = rows.first().map_or(Value::Nothing, |row| value(key, text(&row[0])));
                self.note(Op::Read(key.clone(), after));
            }
            Step::Write(key, number) => self.write(key, *number).await?,
            Step::Scan(low, high, backwards) => drop(self.scan(low, high, *backwards).await?),
            Step::Regret(key) => {
                if self.seen.lock().committing {
                    return Ok(()); // Savepoints need a transaction block.
                }
                self.run("SAVEPOINT regret").await?;
                self.run(&format!("DELETE FROM lab WHERE k = '{key}'")).await?;
                self.run("ROLLBACK TO regret").await?;
            }
            Step::Think(pause_ns) => {
                router.rest(*pause_ns).await;
            }
            Step::Move(from, to, amount) => {
                let has = number(&self.look(from, Lock::Exclusive).await?).unwrap_or(OPENING);
                let other = number(&self.look(to, Lock::Exclusive).await?).unwrap_or(OPENING);
                if has >= *amount {
                    self.write(from, Some(has - amount)).await?;
                    self.write(to, Some(other + amount)).await?;
                }
            }
            Step::Increment(key) => {
                let counted = number(&self.look(key, Lock::Shared).await?).unwrap_or(0);
                self.write(key, Some(counted + 1)).await?;
            }
            Step::Next(low, high, key) => {
                let rows = self.scan(low, high, false).await?;
                let greatest =
                    rows.iter().filter_map(|(_, value)| number(value)).max().unwrap_or(0);
                self.write(key, Some(greatest + 1)).await?;
            }
            Step::InsertUnless(low, high, key, number) => {
                if self.scan(low, high, false).await?.is_empty() {
                    self.write(key, Some(*number)).await?;
                }
            }
        }
        Ok(())
    }
}
