//! A customer asks for the state of the last order (§2.6).

use super::{Attempt, find_customer, prepare_by_name};
use tokio_postgres::{Client, Error, Statement};

/// The statements of the transaction.
pub struct OrderStatus {
    by_name: Statement,
    customer: Statement,
    last: Statement,
    lines: Statement,
}

impl OrderStatus {
    /// Prepares the statements.
    pub async fn prepare(client: &Client) -> Result<OrderStatus, Error> {
        Ok(OrderStatus {
            by_name: prepare_by_name(client).await?,
            customer: client
                .prepare(
                    "SELECT c_balance, c_first, c_middle, c_last FROM customer \
                     WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                )
                .await?,
            last: client
                .prepare(
                    "SELECT o_id, o_carrier_id, o_entry_d FROM orders \
                     WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
                )
                .await?,
            lines: client
                .prepare(
                    "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
                     FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                )
                .await?,
        })
    }

    /// Runs the transaction.
    pub async fn run(&self, attempt: Attempt<'_>) -> Result<(), Error> {
        let Attempt { client, choices, random, step } = attempt;
        let (home, district) = choices.home(random);
        client.batch_execute("BEGIN").await?;
        let customer = find_customer(client, &self.by_name, (home, district), random).await?;
        client.query_one(&self.customer, &[&home, &district, &customer]).await?;
        let order = client.query_one(&self.last, &[&home, &district, &customer]).await?;
        client.query(&self.lines, &[&home, &district, &order.get::<_, i32>(0)]).await?;
        step.commit(client).await
    }
}
