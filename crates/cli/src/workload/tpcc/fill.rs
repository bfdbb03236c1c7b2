//! Creates the nine tables and fills them (§4.3.3), by COPY.

use super::choices::{last_name, name_to_fill};
use super::{CUSTOMERS, DELIVERED, DISTRICTS, ITEMS};
use crate::workload::connect;
use crate::workload::report::Filling;
use futures::SinkExt as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::fmt::Write as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// The tables and their columns.
const TABLES: [(&str, &str); 9] = [
    (
        "warehouse",
        "w_id int PRIMARY KEY, w_name varchar(10), w_street_1 varchar(20), \
     w_street_2 varchar(20), w_city varchar(20), w_state char(2), w_zip char(9), \
     w_tax numeric(4,4), w_ytd numeric(12,2)",
    ),
    (
        "district",
        "d_w_id int, d_id int, d_name varchar(10), d_street_1 varchar(20), \
     d_street_2 varchar(20), d_city varchar(20), d_state char(2), d_zip char(9), \
     d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int NOT NULL, PRIMARY KEY (d_w_id, d_id)",
    ),
    (
        "customer",
        "c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_middle char(2), \
     c_last varchar(16), c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), \
     c_state char(2), c_zip char(9), c_phone char(16), c_since timestamp, c_credit char(2), \
     c_credit_lim numeric(12,2), c_discount numeric(4,4), c_balance numeric(12,2), \
     c_ytd_payment numeric(12,2), c_payment_cnt int, c_delivery_cnt int, c_data varchar(500), \
     PRIMARY KEY (c_w_id, c_d_id, c_id)",
    ),
    (
        "history",
        "h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, \
     h_date timestamp, h_amount numeric(6,2), h_data varchar(24)",
    ),
    (
        "new_order",
        "no_w_id int, no_d_id int, no_o_id int, \
     PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
    ),
    (
        "orders",
        "o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, \
     o_carrier_id int, o_ol_cnt int, o_all_local int, PRIMARY KEY (o_w_id, o_d_id, o_id)",
    ),
    (
        "order_line",
        "ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, \
     ol_supply_w_id int, ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6,2), \
     ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    ),
    (
        "item",
        "i_id int PRIMARY KEY, i_im_id int, i_name varchar(24), i_price numeric(5,2), \
     i_data varchar(50)",
    ),
    (
        "stock",
        "s_w_id int, s_i_id int, s_quantity int, s_dist_01 char(24), \
     s_dist_02 char(24), s_dist_03 char(24), s_dist_04 char(24), s_dist_05 char(24), \
     s_dist_06 char(24), s_dist_07 char(24), s_dist_08 char(24), s_dist_09 char(24), \
     s_dist_10 char(24), s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50), \
     PRIMARY KEY (s_w_id, s_i_id)",
    ),
];

const INDEXES: [&str; 2] = [
    "CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// Rows of one COPY: what a transaction holds in memory.
const ROWS_PER_COPY: usize = 10_000;
/// The date of all rows that are filled in.
const THEN: &str = "2020-01-01 00:00:00";

/// Creates and fills the tables, in place of those of a former run.
pub async fn init(client: &Client, warehouses: u32) -> Result<(), String> {
    replace_tables(client).await?;
    fill(client, warehouses).await.map_err(|error| connect::explain(&error))
}

/// Creates empty tables. Their names are those of many applications: a table that has not the
/// workload's first column is another one's, and then nothing is dropped.
async fn replace_tables(client: &Client) -> Result<(), String> {
    let mut existing = Vec::new();
    for (table, columns) in TABLES {
        let first = columns.split(' ').next().unwrap_or_default();
        let looked = client.batch_execute(&format!("SELECT {first} FROM {table} LIMIT 0")).await;
        match looked {
            Ok(()) => existing.push(table),
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {}
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_COLUMN) => {
                return Err(format!(
                    "there is a table {table} that is not of TPC-C: choose another database"
                ));
            }
            Err(error) => return Err(connect::explain(&error)),
        }
    }
    let drop = existing.iter().map(|table| format!("DROP TABLE {table}"));
    let create = TABLES.iter().map(|(table, columns)| format!("CREATE TABLE {table} ({columns})"));
    for statement in drop.chain(create) {
        let done = client.batch_execute(&statement).await;
        done.map_err(|error| connect::explain(&error))?;
    }
    Ok(())
}

async fn fill(client: &Client, warehouses: u32) -> Result<(), Error> {
    let mut random = StdRng::seed_from_u64(u64::from(warehouses));
    let warehouses = i32::try_from(warehouses).unwrap_or(i32::MAX);
    fill_items(client, &mut random).await?;
    for warehouse in 1..=warehouses {
        fill_warehouse(client, warehouse, &mut random).await?;
    }
    for statement in INDEXES {
        client.batch_execute(statement).await?;
    }
    for (table, _) in TABLES {
        client.batch_execute(&format!("ANALYZE {table}")).await?;
    }
    println!(
        "tpcc: {warehouses} warehouses, {} customers and as many orders",
        i64::from(warehouses) * i64::from(DISTRICTS * CUSTOMERS)
    );
    Ok(())
}

/// Rows on their way into a table.
struct Copy<'a> {
    client: &'a Client,
    table: &'static str,
    text: String,
    rows: usize,
}

impl<'a> Copy<'a> {
    fn into(client: &'a Client, table: &'static str) -> Copy<'a> {
        Copy { client, table, text: String::new(), rows: 0 }
    }

    /// Adds a row: columns in the table's order, separated by tabs; `\N` is NULL.
    async fn add(&mut self, row: std::fmt::Arguments<'_>) -> Result<(), Error> {
        let _ = writeln!(self.text, "{row}"); // A string takes everything.
        self.rows += 1;
        if self.rows == ROWS_PER_COPY { self.send().await } else { Ok(()) }
    }

    async fn send(&mut self) -> Result<(), Error> {
        self.rows = 0;
        let text = std::mem::take(&mut self.text);
        let sink = self.client.copy_in(&format!("COPY {} FROM STDIN", self.table)).await?;
        futures::pin_mut!(sink);
        sink.send(std::io::Cursor::new(text.into_bytes())).await?;
        sink.finish().await?;
        Ok(())
    }
}

async fn fill_items(client: &Client, random: &mut StdRng) -> Result<(), Error> {
    let progress = Filling::new("item", ITEMS as u64);
    let mut items = Copy::into(client, "item");
    for item in 1..=ITEMS {
        let (image, name) = (random.random_range(1..=10_000), letters(random, 14, 24));
        let (price, data) = (cents(random.random_range(100..=10_000)), draw_data(random));
        items.add(format_args!("{item}\t{image}\t{name}\t{price}\t{data}")).await?;
        progress.at(item as u64);
    }
    progress.done();
    items.send().await
}

async fn fill_warehouse(client: &Client, w: i32, random: &mut StdRng) -> Result<(), Error> {
    let (name, place, tax) = (letters(random, 6, 10), address(random), draw_tax(random));
    let mut warehouse = Copy::into(client, "warehouse");
    warehouse.add(format_args!("{w}\t{name}\t{place}\t{tax}\t300000.00")).await?;
    warehouse.send().await?;

    let mut stock = Copy::into(client, "stock");
    for item in 1..=ITEMS {
        let quantity = random.random_range(10..=100);
        let places: Vec<String> = (0..DISTRICTS).map(|_| letters(random, 24, 24)).collect();
        let (places, data) = (places.join("\t"), draw_data(random));
        stock.add(format_args!("{w}\t{item}\t{quantity}\t{places}\t0\t0\t0\t{data}")).await?;
    }
    stock.send().await?;

    let progress = Filling::new(&format!("warehouse {w}"), (DISTRICTS * CUSTOMERS) as u64);
    let mut districts = Copy::into(client, "district");
    for d in 1..=DISTRICTS {
        let (name, place, tax) = (letters(random, 6, 10), address(random), draw_tax(random));
        let next = CUSTOMERS + 1;
        districts.add(format_args!("{w}\t{d}\t{name}\t{place}\t{tax}\t30000.00\t{next}")).await?;
        fill_customers(client, (w, d), random).await?;
        fill_orders(client, (w, d), random).await?;
        progress.at((d * CUSTOMERS) as u64);
    }
    progress.done();
    districts.send().await
}

async fn fill_customers(
    client: &Client,
    (w, d): (i32, i32),
    random: &mut StdRng,
) -> Result<(), Error> {
    let (mut customers, mut history) =
        (Copy::into(client, "customer"), Copy::into(client, "history"));
    for c in 1..=CUSTOMERS {
        let first = letters(random, 8, 16);
        // The first thousand have all the names there are.
        let last = last_name(if c <= 1_000 { c - 1 } else { name_to_fill(random) });
        let (place, phone) = (address(random), digits(random, 16));
        let credit = if random.random_range(0..10) == 0 { "BC" } else { "GC" };
        let discount = format!("0.{:04}", random.random_range(0..=5_000));
        let data = letters(random, 300, 500);
        customers
            .add(format_args!(
                "{w}\t{d}\t{c}\t{first}\tOE\t{last}\t{place}\t{phone}\t{THEN}\t{credit}\t50000.00\t\
                 {discount}\t-10.00\t10.00\t1\t0\t{data}"
            ))
            .await?;
        let paid = letters(random, 12, 24);
        history.add(format_args!("{c}\t{d}\t{w}\t{d}\t{w}\t{THEN}\t10.00\t{paid}")).await?;
    }
    customers.send().await?;
    history.send().await
}

async fn fill_orders(
    client: &Client,
    (w, d): (i32, i32),
    random: &mut StdRng,
) -> Result<(), Error> {
    let mut orders = Copy::into(client, "orders");
    let mut lines = Copy::into(client, "order_line");
    let mut queue = Copy::into(client, "new_order");
    let mut customers: Vec<i32> = (1..=CUSTOMERS).collect();
    customers.shuffle(random);
    for (o, c) in (1..).zip(customers) {
        let delivered = o <= DELIVERED;
        let count = random.random_range(5..=15);
        let carrier = match delivered {
            true => random.random_range(1..=10).to_string(),
            false => "\\N".to_owned(),
        };
        orders.add(format_args!("{w}\t{d}\t{o}\t{c}\t{THEN}\t{carrier}\t{count}\t1")).await?;
        for number in 1..=count {
            let item = random.random_range(1..=ITEMS);
            let (when, amount) = match delivered {
                true => (THEN, "0.00".to_owned()),
                false => ("\\N", cents(random.random_range(1..=999_999))),
            };
            let info = letters(random, 24, 24);
            lines
                .add(format_args!(
                    "{w}\t{d}\t{o}\t{number}\t{item}\t{w}\t{when}\t5\t{amount}\t{info}"
                ))
                .await?;
        }
        if !delivered {
            queue.add(format_args!("{w}\t{d}\t{o}")).await?;
        }
    }
    orders.send().await?;
    lines.send().await?;
    queue.send().await
}

fn cents(amount: u32) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

fn draw_tax(random: &mut StdRng) -> String {
    format!("0.{:04}", random.random_range(0..=2_000))
}

fn letters(random: &mut StdRng, least: usize, most: usize) -> String {
    let length = random.random_range(least..=most);
    (0..length).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect()
}

fn digits(random: &mut StdRng, length: usize) -> String {
    (0..length).map(|_| char::from(random.random_range(b'0'..=b'9'))).collect()
}

/// Returns what items and stock say of themselves: one in ten is an original (§4.3.3.1).
fn draw_data(random: &mut StdRng) -> String {
    let mut data = letters(random, 26, 50);
    if random.random_range(0..10) == 0 {
        let at = random.random_range(0..=data.len() - 8);
        data.replace_range(at..at + 8, "ORIGINAL");
    }
    data
}

/// Returns two lines of street, city, state and zip, separated by tabs.
fn address(random: &mut StdRng) -> String {
    let mut line = || letters(random, 10, 20);
    let (one, two, city) = (line(), line(), line());
    let state = letters(random, 2, 2).to_uppercase();
    format!("{one}\t{two}\t{city}\t{state}\t{}11111", digits(random, 4))
}
