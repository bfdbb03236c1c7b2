//! A customer pays (§2.5): the sums of warehouse and district, the customer's balance, the history.

use super::choices;
use super::{Attempt, find_customer, prepare_by_name};
use rand::Rng;
use rust_decimal::Decimal;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

/// The longest `c_data`, in characters.
const MOST_DATA: usize = 500;

/// The statements of the transaction.
pub struct Payment {
    warehouse: Statement,
    address: Statement,
    district: Statement,
    district_address: Statement,
    by_name: Statement,
    customer: Statement,
    data: Statement,
    pay: Statement,
    pay_with_data: Statement,
    remember: Statement,
}

impl Payment {
    /// Prepares the statements.
    pub async fn prepare(client: &Client) -> Result<Payment, Error> {
        Ok(Payment {
            warehouse: client
                .prepare("UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2")
                .await?,
            address: client
                .prepare(
                    "SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name \
                     FROM warehouse WHERE w_id = $1",
                )
                .await?,
            district: client
                .prepare("UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3")
                .await?,
            district_address: client
                .prepare(
                    "SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name \
                     FROM district WHERE d_w_id = $1 AND d_id = $2",
                )
                .await?,
            by_name: prepare_by_name(client).await?,
            customer: client
                .prepare(
                    "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
                     c_phone, c_credit, c_credit_lim, c_discount, c_balance, c_since FROM customer \
                     WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE",
                )
                .await?,
            data: client
                .prepare(
                    "SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                )
                .await?,
            pay: client
                .prepare(
                    "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
                     c_payment_cnt = c_payment_cnt + 1 \
                     WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
                )
                .await?,
            pay_with_data: client
                .prepare(
                    "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
                     c_payment_cnt = c_payment_cnt + 1, c_data = $5 \
                     WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
                )
                .await?,
            remember: client
                .prepare(
                    "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
                     VALUES ($1, $2, $3, $4, $5, CURRENT_TIMESTAMP, $6, $7)",
                )
                .await?,
        })
    }

    /// Runs the transaction.
    pub async fn run(&self, attempt: Attempt<'_>) -> Result<(), Error> {
        let Attempt { client, choices, random, step } = attempt;
        let (home, district) = choices.home(random);
        let amount = Decimal::new(random.random_range(100..=500_000), 2);
        // Fifteen in a hundred customers pay at a warehouse that is not theirs.
        let (warehouse_of, district_of) = if random.random_range(0..100) < 85 {
            (home, district)
        } else {
            (choices.other_warehouse(home, random), choices::district(random))
        };
        client.batch_execute("BEGIN").await?;
        client.execute(&self.warehouse, &[&amount, &home]).await?;
        let warehouse = client.query_one(&self.address, &[&home]).await?;
        client.execute(&self.district, &[&amount, &home, &district]).await?;
        let place = client.query_one(&self.district_address, &[&home, &district]).await?;
        let customer =
            find_customer(client, &self.by_name, (warehouse_of, district_of), random).await?;
        let key: [&(dyn ToSql + Sync); 3] = [&warehouse_of, &district_of, &customer];
        let found = client.query_one(&self.customer, &key).await?;
        let pays: [&(dyn ToSql + Sync); 4] = [&amount, &warehouse_of, &district_of, &customer];
        if found.get::<_, &str>(9) == "BC" {
            let data: String = client.query_one(&self.data, &key).await?.get(0);
            let data = format!(
                "{customer} {district_of} {warehouse_of} {district} {home} {amount}|{data}"
            );
            let data: String = data.chars().take(MOST_DATA).collect();
            let [amount, warehouse_of, district_of, customer] = pays;
            let values = [amount, warehouse_of, district_of, customer, &data];
            client.execute(&self.pay_with_data, &values).await?;
        } else {
            client.execute(&self.pay, &pays).await?;
        }
        let names = format!("{}    {}", warehouse.get::<_, &str>(5), place.get::<_, &str>(5));
        let values: [&(dyn ToSql + Sync); 7] =
            [&district_of, &warehouse_of, &customer, &district, &home, &amount, &names];
        client.execute(&self.remember, &values).await?;
        step.commit(client).await
    }
}
