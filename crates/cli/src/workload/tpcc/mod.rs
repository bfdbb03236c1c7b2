//! TPC-C: the terminals of a wholesale supplier, as the specification (revision 5.11) has them:
//! five transactions on nine tables, one of which grows with each order.
//!
//! Tables, sizes, mix, non-uniform choices and consistency conditions are the specification's
//! (§1.3, §4.3, §5.2.3, §2.1.6, §3.3.2). What differs, so that the result is comparable with other
//! runs of this kind, and is no tpmC in the sense of the specification:
//!
//! - Terminals do not think and have no keying time, and each transaction chooses its warehouse:
//!   the server is what limits the throughput.
//! - The items of an order are distinct and in order, so that orders do not deadlock.
//! - One order in a hundred is rolled back (§2.4.1.4) when an item is not found, before stock is
//!   looked at. It counts as a transaction.
//! - Texts have lowercase letters only, and all rows that are filled in have one date.

mod check;
mod choices;
mod delivery;
mod fill;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

pub use check::check;
pub use fill::init;

use super::{connect, drive::Step, numbers};
use choices::Choices;
use rand::Rng;
use rand::rngs::StdRng;
use tokio_postgres::{Client, Error, Row, Statement};

/// Districts of a warehouse.
const DISTRICTS: i32 = 10;
/// Customers of a district, of which each has ordered once.
const CUSTOMERS: i32 = 3_000;
/// Items, of which each warehouse has a stock.
const ITEMS: i32 = 100_000;
/// The last order of a district that has been delivered when the tables are filled.
const DELIVERED: i32 = 2_100;

/// One terminal's prepared statements.
pub struct Tpcc {
    choices: Choices,
    new_order: new_order::NewOrder,
    payment: payment::Payment,
    order_status: order_status::OrderStatus,
    delivery: delivery::Delivery,
    stock_level: stock_level::StockLevel,
}

impl Tpcc {
    /// Prepares the statements on a new connection.
    pub async fn prepare(client: &Client) -> Result<Tpcc, String> {
        let warehouses = numbers(client, "SELECT count(*) FROM warehouse").await;
        let warehouses = warehouses
            .map_err(|error| format!("{error}; run `meridian workload tpcc init` first?"))?[0];
        if warehouses < 1 {
            return Err(
                "there are no warehouses: run `meridian workload tpcc init` first".to_owned()
            );
        }
        let warehouses = i32::try_from(warehouses).map_err(|_| "too many warehouses".to_owned())?;
        Tpcc::on(client, warehouses).await.map_err(|error| connect::explain(&error))
    }

    async fn on(client: &Client, warehouses: i32) -> Result<Tpcc, Error> {
        Ok(Tpcc {
            choices: Choices { warehouses },
            new_order: new_order::NewOrder::prepare(client).await?,
            payment: payment::Payment::prepare(client).await?,
            order_status: order_status::OrderStatus::prepare(client).await?,
            delivery: delivery::Delivery::prepare(client).await?,
            stock_level: stock_level::StockLevel::prepare(client).await?,
        })
    }

    /// Runs one transaction of the mix (§5.2.3), and returns its name.
    pub async fn step(
        &self,
        client: &Client,
        random: &mut StdRng,
        step: &Step,
    ) -> Result<&'static str, Error> {
        let drawn = random.random_range(0..100);
        let attempt = Attempt { client, choices: &self.choices, random, step };
        match drawn {
            0..45 => self.new_order.run(attempt).await.map(|()| "new order"),
            45..88 => self.payment.run(attempt).await.map(|()| "payment"),
            88..92 => self.order_status.run(attempt).await.map(|()| "order status"),
            92..96 => self.delivery.run(attempt).await.map(|()| "delivery"),
            _ => self.stock_level.run(attempt).await.map(|()| "stock level"),
        }
    }
}

/// One attempt of a transaction.
struct Attempt<'a> {
    client: &'a Client,
    choices: &'a Choices,
    random: &'a mut StdRng,
    step: &'a Step,
}

/// Prepares the statement that finds the customers of a district by their last name; the middle
/// one of them is chosen (§2.5.2.2).
async fn prepare_by_name(client: &Client) -> Result<Statement, Error> {
    let sql = "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
               ORDER BY c_first";
    client.prepare(sql).await
}

/// Returns the number of a customer: six in ten are chosen by their last name.
async fn find_customer(
    client: &Client,
    by_name: &Statement,
    (warehouse, district): (i32, i32),
    random: &mut StdRng,
) -> Result<i32, Error> {
    if random.random_range(0..100) >= 60 {
        return Ok(choices::customer(random));
    }
    let name = choices::last_name(choices::name_of_customer(random));
    let found: Vec<Row> = client.query(by_name, &[&warehouse, &district, &name]).await?;
    // Each of the thousand names is that of a customer of each district, since a part of the
    // customers is filled in order of the names.
    let middle = found.get(found.len().div_ceil(2).saturating_sub(1));
    Ok(middle.map_or(1, |row| row.get(0)))
}
