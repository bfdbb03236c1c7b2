//! Transfers between accounts, whose total must never change.

use super::{connect, drive::Step, fill, numbers};
use rand::Rng;
use rand::rngs::StdRng;
use tokio_postgres::{Client, Error, Statement};

const ACCOUNTS_PER_SCALE: u64 = 1000;
const FIRST_BALANCE: i64 = 1000;

/// Creates and fills `bank_accounts`.
pub async fn init(client: &Client, scale: u32) -> Result<(), Error> {
    client.batch_execute("DROP TABLE IF EXISTS bank_accounts").await?;
    client
        .batch_execute(
            "CREATE TABLE bank_accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)",
        )
        .await?;
    let accounts = ACCOUNTS_PER_SCALE * u64::from(scale);
    fill(client, "bank_accounts", accounts, |id| format!("({id},{FIRST_BALANCE})")).await?;
    println!("bank: {accounts} accounts of {FIRST_BALANCE} each");
    Ok(())
}

/// Checks that the total is what the accounts began with.
pub async fn check(client: &Client) -> Result<(), String> {
    let found = numbers(client, "SELECT count(*), sum(balance) FROM bank_accounts").await;
    let found = found.map_err(|error| {
        format!("workload bank check: {error}; run `meridian workload bank init` first?")
    })?;
    let (accounts, total) = (found[0], found[1]);
    let expected = accounts * i128::from(FIRST_BALANCE);
    if total != expected {
        return Err(format!(
            "bank check FAILED: {accounts} accounts hold {total}, expected {expected}; {} appeared or vanished",
            total - expected
        ));
    }
    println!("bank check ok: {accounts} accounts hold {total}, as in the beginning");
    Ok(())
}

/// One client's prepared statements.
pub struct Bank {
    accounts: i64,
    lock: Statement,
    add: Statement,
}

impl Bank {
    /// Prepares the statements on a new connection. Plain reads lock nothing: the total is kept
    /// all the same, because a transfer adds to each row that it reads.
    pub async fn prepare(client: &Client, plain_reads: bool) -> Result<Bank, String> {
        let locks = if plain_reads { "" } else { " FOR UPDATE" };
        let explain = |error: Error| {
            format!("{}; run `meridian workload bank init` first?", connect::explain(&error))
        };
        let accounts = numbers(client, "SELECT count(*) FROM bank_accounts").await?[0];
        if accounts < 2 {
            return Err(
                "the bank has no accounts: run `meridian workload bank init` first".to_owned()
            );
        }
        Ok(Bank {
            accounts: i64::try_from(accounts).map_err(|_| "too many accounts".to_owned())?,
            lock: client
                .prepare(&format!("SELECT balance FROM bank_accounts WHERE id = $1{locks}"))
                .await
                .map_err(explain)?,
            add: client
                .prepare("UPDATE bank_accounts SET balance = balance + $1 WHERE id = $2")
                .await
                .map_err(explain)?,
        })
    }

    /// Moves an amount that the giving account has.
    pub async fn step(
        &self,
        client: &Client,
        random: &mut StdRng,
        step: &Step,
    ) -> Result<(), Error> {
        let from = random.random_range(0..self.accounts);
        let to = (from + random.random_range(1..self.accounts)) % self.accounts;
        let amount = random.random_range(1..=100_i64);
        client.batch_execute("BEGIN").await?;
        let balance: i64 = client.query_one(&self.lock, &[&from]).await?.get(0);
        let amount = amount.min(balance.max(0));
        client.execute(&self.add, &[&-amount, &from]).await?;
        client.execute(&self.add, &[&amount, &to]).await?;
        step.commit(client).await
    }
}
