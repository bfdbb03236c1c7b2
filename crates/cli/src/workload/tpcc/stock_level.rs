//! How many of the items that were ordered last are low in stock (§2.8).

use super::Attempt;
use rand::Rng;
use tokio_postgres::{Client, Error, Statement};

/// The statements of the transaction.
pub struct StockLevel {
    next: Statement,
    low: Statement,
}

impl StockLevel {
    /// Prepares the statements.
    pub async fn prepare(client: &Client) -> Result<StockLevel, Error> {
        Ok(StockLevel {
            next: client
                .prepare("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2")
                .await?,
            low: client
                .prepare(
                    "SELECT count(DISTINCT s_i_id) FROM order_line, stock \
                     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $3 - 20 \
                     AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $4",
                )
                .await?,
        })
    }

    /// Runs the transaction.
    pub async fn run(&self, attempt: Attempt<'_>) -> Result<(), Error> {
        let Attempt { client, choices, random, step } = attempt;
        let (home, district) = choices.home(random);
        let threshold = random.random_range(10..=20);
        client.batch_execute("BEGIN").await?;
        let next: i32 = client.query_one(&self.next, &[&home, &district]).await?.get(0);
        client.query_one(&self.low, &[&home, &district, &next, &threshold]).await?;
        step.commit(client).await
    }
}
