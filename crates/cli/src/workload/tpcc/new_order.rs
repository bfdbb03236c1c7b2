//! A customer orders five to fifteen items (§2.4).

use super::choices::{self, Choices};
use super::{Attempt, ITEMS};
use rand::Rng;
use rand::rngs::StdRng;
use rust_decimal::Decimal;
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

const LEAST_LINES: usize = 5;
const MOST_LINES: usize = 15;
/// The columns of an order's line that the transaction sets.
const LINE_COLUMNS: usize = 9;

/// The statements of the transaction.
pub struct NewOrder {
    customer: Statement,
    district: Statement,
    count: Statement,
    order: Statement,
    queue: Statement,
    take: Statement,
    /// By the number of lines.
    counted: Vec<Counted>,
}

/// The statements whose texts depend on the number of lines.
struct Counted {
    items: Statement,
    stock: Statement,
    lines: Statement,
}

impl Counted {
    async fn prepare(client: &Client, lines: usize) -> Result<Counted, Error> {
        let list = |width: usize| {
            let group = |at: usize| {
                let members = (1..=width).map(|column| format!("${}", at * width + column));
                format!("({})", members.collect::<Vec<_>>().join(", "))
            };
            (0..lines).map(group).collect::<Vec<_>>().join(", ")
        };
        let ids = (1..=lines).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ");
        Ok(Counted {
            items: client
                .prepare(&format!(
                    "SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ({ids})"
                ))
                .await?,
            stock: client
                .prepare(&format!(
                    "SELECT s_w_id, s_i_id, s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, \
                     s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10 \
                     FROM stock WHERE (s_w_id, s_i_id) IN ({}) FOR UPDATE",
                    list(2)
                ))
                .await?,
            lines: client
                .prepare(&format!(
                    "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, \
                     ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES {}",
                    list(LINE_COLUMNS)
                ))
                .await?,
        })
    }
}

/// A line as it is ordered.
struct Line {
    item: i32,
    supplier: i32,
    quantity: i32,
}

impl NewOrder {
    /// Prepares the statements.
    pub async fn prepare(client: &Client) -> Result<NewOrder, Error> {
        let mut counted = Vec::new();
        for lines in LEAST_LINES..=MOST_LINES {
            counted.push(Counted::prepare(client, lines).await?);
        }
        Ok(NewOrder {
            customer: client
                .prepare(
                    "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
                     WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3",
                )
                .await?,
            district: client
                .prepare(
                    "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE",
                )
                .await?,
            count: client
                .prepare(
                    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2",
                )
                .await?,
            order: client
                .prepare(
                    "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
                     VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, $5, $6)",
                )
                .await?,
            queue: client
                .prepare("INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)")
                .await?,
            take: client
                .prepare(
                    "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, \
                     s_remote_cnt = s_remote_cnt + $3 WHERE s_w_id = $4 AND s_i_id = $5",
                )
                .await?,
            counted,
        })
    }

    /// Runs the transaction. One in a hundred orders an item that does not exist, and is rolled
    /// back (§2.4.1.4).
    pub async fn run(&self, attempt: Attempt<'_>) -> Result<(), Error> {
        let Attempt { client, choices, random, step } = attempt;
        let (home, district) = choices.home(random);
        let customer = choices::customer(random);
        let lines = draw_lines(choices, home, random);
        let count = lines.len();
        let Some(counted) = self.counted.get(count.saturating_sub(LEAST_LINES)) else {
            return Ok(()); // `draw_lines` draws as many as there are statements for.
        };
        client.batch_execute("BEGIN").await?;
        client.query_one(&self.customer, &[&home, &district, &customer]).await?;
        let order: i32 = client.query_one(&self.district, &[&home, &district]).await?.get(0);
        client.execute(&self.count, &[&home, &district]).await?;
        let all_local = i32::from(lines.iter().all(|line| line.supplier == home));
        let values: [&(dyn ToSql + Sync); 6] =
            [&home, &district, &order, &customer, &(count as i32), &all_local];
        client.execute(&self.order, &values).await?;
        client.execute(&self.queue, &[&home, &district, &order]).await?;

        let ids: Vec<&(dyn ToSql + Sync)> = lines.iter().map(|line| &line.item as _).collect();
        let items = client.query(&counted.items, &ids).await?;
        if items.len() < count {
            return client.batch_execute("ROLLBACK").await;
        }
        let prices: BTreeMap<i32, Decimal> =
            items.iter().map(|row| (row.get(0), row.get(1))).collect();
        let keys: Vec<&(dyn ToSql + Sync)> =
            lines.iter().flat_map(|line| [&line.supplier as _, &line.item as _]).collect();
        let stock = client.query(&counted.stock, &keys).await?;
        let mut places = BTreeMap::new();
        for row in &stock {
            let info: &str = row.get(3 + district as usize);
            places.insert((row.get(0), row.get(1)), (row.get::<_, i32>(2), info));
        }
        let mut written = Vec::with_capacity(count);
        for (number, line) in (1..).zip(&lines) {
            let Some((quantity, info)) = places.get(&(line.supplier, line.item)).copied() else {
                continue; // The check finds an order with too few lines.
            };
            // Stock that gets low is replenished (§2.4.2.2).
            let enough = quantity >= line.quantity + 10;
            let left = quantity - line.quantity + if enough { 0 } else { 91 };
            let remote = i32::from(line.supplier != home);
            let values: [&(dyn ToSql + Sync); 5] =
                [&left, &line.quantity, &remote, &line.supplier, &line.item];
            client.execute(&self.take, &values).await?;
            let price = prices.get(&line.item).copied().unwrap_or_default();
            let amount = price * Decimal::from(line.quantity);
            written.push((number, line, amount, info));
        }
        let mut values: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(count * LINE_COLUMNS);
        for (number, line, amount, info) in &written {
            values.extend::<[&(dyn ToSql + Sync); LINE_COLUMNS]>([
                &home,
                &district,
                &order,
                number,
                &line.item,
                &line.supplier,
                &line.quantity,
                amount,
                info,
            ]);
        }
        client.execute(&counted.lines, &values).await?;
        step.commit(client).await
    }
}

fn draw_lines(choices: &Choices, home: i32, random: &mut StdRng) -> Vec<Line> {
    let count = random.random_range(LEAST_LINES..=MOST_LINES);
    let unknown = random.random_range(0..100) == 0;
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        chosen.insert(choices::item(random));
    }
    let mut lines: Vec<Line> = chosen
        .into_iter()
        .map(|item| {
            let remote = random.random_range(0..100) == 0;
            let supplier = if remote { choices.other_warehouse(home, random) } else { home };
            Line { item, supplier, quantity: random.random_range(1..=10) }
        })
        .collect();
    if unknown && let Some(last) = lines.last_mut() {
        last.item = ITEMS + 1;
    }
    lines
}
