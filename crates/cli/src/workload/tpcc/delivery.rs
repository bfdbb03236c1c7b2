//! The oldest undelivered order of each district is delivered (§2.7), in one transaction.

use super::{Attempt, DISTRICTS};
use rand::Rng;
use rust_decimal::Decimal;
use tokio_postgres::{Client, Error, Statement};

/// The statements of the transaction.
pub struct Delivery {
    oldest: Statement,
    dequeue: Statement,
    carry: Statement,
    deliver: Statement,
    total: Statement,
    charge: Statement,
}

impl Delivery {
    /// Prepares the statements.
    pub async fn prepare(client: &Client) -> Result<Delivery, Error> {
        Ok(Delivery {
            oldest: client
                .prepare(
                    "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
                     ORDER BY no_o_id LIMIT 1 FOR UPDATE",
                )
                .await?,
            dequeue: client
                .prepare(
                    "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
                )
                .await?,
            carry: client
                .prepare(
                    "UPDATE orders SET o_carrier_id = $4 \
                     WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id",
                )
                .await?,
            deliver: client
                .prepare(
                    "UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP \
                     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                )
                .await?,
            total: client
                .prepare(
                    "SELECT sum(ol_amount) FROM order_line \
                     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                )
                .await?,
            charge: client
                .prepare(
                    "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
                     WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                )
                .await?,
        })
    }

    /// Runs the transaction. Districts without an undelivered order are passed over (§2.7.4.2).
    pub async fn run(&self, attempt: Attempt<'_>) -> Result<(), Error> {
        let Attempt { client, choices, random, step } = attempt;
        let (home, _) = choices.home(random);
        let carrier = random.random_range(1..=10);
        client.batch_execute("BEGIN").await?;
        for district in 1..=DISTRICTS {
            let Some(oldest) = client.query_opt(&self.oldest, &[&home, &district]).await? else {
                continue;
            };
            let order: i32 = oldest.get(0);
            client.execute(&self.dequeue, &[&home, &district, &order]).await?;
            let carried =
                client.query_one(&self.carry, &[&home, &district, &order, &carrier]).await?;
            let customer: i32 = carried.get(0);
            client.execute(&self.deliver, &[&home, &district, &order]).await?;
            let total = client.query_one(&self.total, &[&home, &district, &order]).await?;
            let total: Decimal = total.get(0);
            client.execute(&self.charge, &[&home, &district, &customer, &total]).await?;
        }
        step.commit(client).await
    }
}
