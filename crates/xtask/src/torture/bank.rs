//! Transfers between accounts of two shards, and the sum that they never change.

use super::clients::ask;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tokio_postgres::{Client, Error};

const ACCOUNTS: i64 = 10;
const OPENING: i64 = 1_000;

/// Creates the accounts.
pub async fn create(client: &Client) -> Result<(), Option<Error>> {
    ask(client, "CREATE TABLE bank (id int PRIMARY KEY, balance int NOT NULL)").await?;
    let rows: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, {OPENING})")).collect();
    ask(client, &format!("INSERT INTO bank VALUES {}", rows.join(", "))).await.map(drop)
}

/// The statement that splits the accounts.
pub const SPLIT: &str = "ALTER TABLE bank SPLIT AT VALUES (5)";

/// Moves an amount, which may make a balance negative.
pub async fn transfer(client: &Client, rng: &mut ChaCha8Rng) -> Result<(), Option<Error>> {
    let from = rng.random_range(0..ACCOUNTS);
    let to = (from + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
    let amount = rng.random_range(1..=100);
    ask(client, "BEGIN").await?;
    for (id, change) in [(from, -amount), (to, amount)] {
        let update = format!("UPDATE bank SET balance = balance + {change} WHERE id = {id}");
        ask(client, &update).await?;
    }
    ask(client, "COMMIT").await.map(drop)
}

/// Reads all accounts. Returns the contradiction, if they do not hold what they began with.
pub async fn check(client: &Client) -> Result<Option<String>, Option<Error>> {
    let rows = ask(client, "SELECT count(*), sum(balance) FROM bank").await?;
    let number = |at| rows.first()?.get(at)?.parse::<i64>().ok();
    let found = (number(0), number(1));
    let right = found == (Some(ACCOUNTS), Some(ACCOUNTS * OPENING));
    Ok((!right).then(|| format!("{ACCOUNTS} accounts of {OPENING} were read as {found:?}")))
}
