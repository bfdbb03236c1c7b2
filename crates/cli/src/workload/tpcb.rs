//! pgbench's TPC-B transaction on pgbench's tables, so that either tool can fill, run and check the
//! other's data.

use super::{connect, drive::Step, fill, numbers};
use rand::Rng;
use rand::rngs::StdRng;
use tokio_postgres::{Client, Error, Statement};

const TELLERS: u64 = 10;
const ACCOUNTS: u64 = 100_000;

/// Creates and fills pgbench's four tables.
pub async fn init(client: &Client, scale: u32) -> Result<(), Error> {
    for statement in [
        "DROP TABLE IF EXISTS pgbench_history",
        "DROP TABLE IF EXISTS pgbench_tellers",
        "DROP TABLE IF EXISTS pgbench_accounts",
        "DROP TABLE IF EXISTS pgbench_branches",
        "CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88), PRIMARY KEY (bid))",
        "CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84), PRIMARY KEY (tid))",
        "CREATE TABLE pgbench_accounts (aid int NOT NULL, bid int, abalance int, filler char(84), PRIMARY KEY (aid))",
        "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))",
    ] {
        client.batch_execute(statement).await?;
    }
    let branches = u64::from(scale);
    fill(client, "pgbench_branches", branches, |n| format!("({},0,'')", n + 1)).await?;
    fill(client, "pgbench_tellers", branches * TELLERS, |n| {
        format!("({},{},0,'')", n + 1, n / TELLERS + 1)
    })
    .await?;
    fill(client, "pgbench_accounts", branches * ACCOUNTS, |n| {
        format!("({},{},0,'')", n + 1, n / ACCOUNTS + 1)
    })
    .await?;
    println!(
        "tpcb: {branches} branches, {} tellers, {} accounts",
        branches * TELLERS,
        branches * ACCOUNTS
    );
    Ok(())
}

/// Checks that the four sums are equal: every transaction adds one delta to a branch, a teller, an
/// account and the history.
pub async fn check(client: &Client) -> Result<(), String> {
    let mut sums = Vec::new();
    for (table, column) in [
        ("pgbench_branches", "bbalance"),
        ("pgbench_tellers", "tbalance"),
        ("pgbench_accounts", "abalance"),
        ("pgbench_history", "delta"),
    ] {
        let found = numbers(client, &format!("SELECT count(*), sum({column}) FROM {table}")).await;
        let found = found.map_err(|error| {
            format!("workload tpcb check: {error}; run `meridian workload tpcb init` first?")
        })?;
        println!("  {table:<17} {:>9} rows  sum({column}) = {}", found[0], found[1]);
        sums.push(found[1]);
    }
    if sums[..3].iter().any(|sum| *sum != sums[0]) {
        return Err("tpcb check FAILED: branches, tellers and accounts do not add up to the same"
            .to_owned());
    }
    if sums[3] != sums[0] {
        return Err("tpcb check FAILED: the history does not add up to the balances \
                    (pgbench empties the history when a run starts, unless it is given -n)"
            .to_owned());
    }
    println!("tpcb check ok: balances and history add up");
    Ok(())
}

/// One client's prepared statements.
pub struct Tpcb {
    branches: i32,
    add_account: Statement,
    read_account: Statement,
    add_teller: Statement,
    add_branch: Statement,
    remember: Statement,
}

impl Tpcb {
    /// Prepares the statements on a new connection.
    pub async fn prepare(client: &Client) -> Result<Tpcb, String> {
        let branches = numbers(client, "SELECT count(*) FROM pgbench_branches").await;
        let branches = branches
            .map_err(|error| format!("{error}; run `meridian workload tpcb init` first?"))?[0];
        if branches < 1 {
            return Err("there are no branches: run `meridian workload tpcb init` first".to_owned());
        }
        let prepare =
            async |sql: &str| client.prepare(sql).await.map_err(|error| connect::explain(&error));
        Ok(Tpcb {
            branches: i32::try_from(branches).map_err(|_| "too many branches".to_owned())?,
            add_account: prepare("UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2").await?,
            read_account: prepare("SELECT abalance FROM pgbench_accounts WHERE aid = $1").await?,
            add_teller: prepare("UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2").await?,
            add_branch: prepare("UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2").await?,
            remember: prepare(
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
            )
            .await?,
        })
    }

    /// Runs one transaction.
    pub async fn step(
        &self,
        client: &Client,
        random: &mut StdRng,
        step: &Step,
    ) -> Result<(), Error> {
        let aid = random.random_range(1..=self.branches.saturating_mul(ACCOUNTS as i32));
        let bid = random.random_range(1..=self.branches);
        let tid = random.random_range(1..=self.branches.saturating_mul(TELLERS as i32));
        let delta = random.random_range(-5000..=5000_i32);
        client.batch_execute("BEGIN").await?;
        client.execute(&self.add_account, &[&delta, &aid]).await?;
        client.query_one(&self.read_account, &[&aid]).await?;
        client.execute(&self.add_teller, &[&delta, &tid]).await?;
        client.execute(&self.add_branch, &[&delta, &bid]).await?;
        client.execute(&self.remember, &[&tid, &bid, &aid, &delta]).await?;
        step.commit(client).await
    }
}
