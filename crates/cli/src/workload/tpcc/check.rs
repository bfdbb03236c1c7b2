//! The consistency conditions (§3.3.2): each is a query for what breaks it.

use super::{CUSTOMERS, DISTRICTS, numbers};
use tokio_postgres::Client;

/// A condition in words, and the query that counts what breaks it in the warehouse `$1`. The
/// numbers are the specification's; 11 holds for new tables only.
const CONDITIONS: [(&str, &str); 11] = [
    (
        "1  a warehouse's sum is that of its districts",
        "SELECT count(*) FROM warehouse WHERE w_id = $1 \
         AND w_ytd <> (SELECT coalesce(sum(d_ytd), 0) FROM district WHERE d_w_id = $1)",
    ),
    (
        "2  a district's next order follows its last one",
        "SELECT count(*) FROM district WHERE d_w_id = $1 AND (\
         d_next_o_id - 1 <> (SELECT coalesce(max(o_id), 0) FROM orders WHERE o_w_id = $1 AND o_d_id = d_id) OR \
         d_next_o_id - 1 <> (SELECT max(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = d_id))",
    ),
    (
        "3  a district's queue has no gaps",
        "SELECT count(*) FROM (SELECT no_d_id FROM new_order WHERE no_w_id = $1 GROUP BY no_d_id \
         HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) broken",
    ),
    (
        "4  a district has as many lines as its orders say",
        "SELECT count(*) FROM (SELECT o_d_id, sum(o_ol_cnt) AS said FROM orders \
         WHERE o_w_id = $1 GROUP BY o_d_id) o FULL JOIN (SELECT ol_d_id, count(*) AS found \
         FROM order_line WHERE ol_w_id = $1 GROUP BY ol_d_id) l ON ol_d_id = o_d_id \
         WHERE said IS DISTINCT FROM found",
    ),
    (
        "5  an order has no carrier exactly if it is in the queue",
        "SELECT count(*) FROM (SELECT o_d_id, o_id, o_carrier_id FROM orders WHERE o_w_id = $1) o \
         FULL JOIN (SELECT no_d_id, no_o_id FROM new_order WHERE no_w_id = $1) q \
         ON no_d_id = o_d_id AND no_o_id = o_id \
         WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    (
        "6  an order has as many lines as it says",
        "SELECT count(*) FROM (SELECT o_d_id, o_id, o_ol_cnt FROM orders WHERE o_w_id = $1) o \
         FULL JOIN (SELECT ol_d_id, ol_o_id, count(*) AS found FROM order_line \
         WHERE ol_w_id = $1 GROUP BY ol_d_id, ol_o_id) l ON ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE o_ol_cnt IS DISTINCT FROM found",
    ),
    (
        "7  a line is delivered exactly if its order has a carrier",
        "SELECT count(*) FROM order_line JOIN orders ON o_d_id = ol_d_id AND o_id = ol_o_id \
         WHERE ol_w_id = $1 AND o_w_id = $1 AND (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    (
        "8  a warehouse's sum is what its history says",
        "SELECT count(*) FROM warehouse WHERE w_id = $1 \
         AND w_ytd <> (SELECT coalesce(sum(h_amount), 0) FROM history WHERE h_w_id = $1)",
    ),
    (
        "9  a district's sum is what its history says",
        "SELECT count(*) FROM district LEFT JOIN (SELECT h_d_id, sum(h_amount) AS paid FROM history \
         WHERE h_w_id = $1 GROUP BY h_d_id) h ON h_d_id = d_id \
         WHERE d_w_id = $1 AND d_ytd <> coalesce(paid, 0)",
    ),
    (
        "10 a balance is what was delivered less what was paid",
        "SELECT count(*) FROM customer LEFT JOIN (SELECT o_d_id, o_c_id, sum(ol_amount) AS owed \
         FROM orders JOIN order_line ON ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE o_w_id = $1 AND ol_w_id = $1 AND ol_delivery_d IS NOT NULL GROUP BY o_d_id, o_c_id) o \
         ON o_d_id = c_d_id AND o_c_id = c_id \
         LEFT JOIN (SELECT h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history \
         WHERE h_c_w_id = $1 GROUP BY h_c_d_id, h_c_id) h ON h_c_d_id = c_d_id AND h_c_id = c_id \
         WHERE c_w_id = $1 AND c_balance <> coalesce(owed, 0) - coalesce(paid, 0)",
    ),
    (
        "12 a balance and its payments are what was delivered",
        "SELECT count(*) FROM customer LEFT JOIN (SELECT o_d_id, o_c_id, sum(ol_amount) AS owed \
         FROM orders JOIN order_line ON ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE o_w_id = $1 AND ol_w_id = $1 AND ol_delivery_d IS NOT NULL GROUP BY o_d_id, o_c_id) o \
         ON o_d_id = c_d_id AND o_c_id = c_id \
         WHERE c_w_id = $1 AND c_balance + c_ytd_payment <> coalesce(owed, 0)",
    ),
];

/// Checks the numbers of warehouses, districts and customers, and the conditions for each
/// warehouse.
pub async fn check(client: &Client) -> Result<(), String> {
    let counted = numbers(client, "SELECT count(*), max(w_id) FROM warehouse").await;
    let counted = counted.map_err(|error| {
        format!("workload tpcc check: {error}; run `meridian workload tpcc init` first?")
    })?;
    let (warehouses, last) = (counted[0], counted[1]);
    if warehouses < 1 || warehouses != last {
        return Err(format!("tpcc check FAILED: {warehouses} warehouses, the last is {last}"));
    }
    let counts = "SELECT (SELECT count(*) FROM district), (SELECT count(*) FROM customer)";
    let found = numbers(client, counts).await?;
    let districts = warehouses * i128::from(DISTRICTS);
    if found != [districts, districts * i128::from(CUSTOMERS)] {
        return Err(format!("tpcc check FAILED: {found:?} districts and customers"));
    }
    let mut failed = false;
    for (condition, query) in CONDITIONS {
        let mut broken = 0;
        for warehouse in 1..=warehouses {
            let query = query.replace("$1", &warehouse.to_string());
            broken += numbers(client, &query).await?[0];
        }
        let verdict = if broken == 0 { "ok".to_owned() } else { format!("BROKEN: {broken}") };
        println!("  {condition:<58} {verdict}");
        failed |= broken != 0;
    }
    let orders = numbers(client, "SELECT count(*) FROM orders").await?[0];
    if failed {
        return Err("tpcc check FAILED: see the conditions that are broken".to_owned());
    }
    println!("tpcc check ok: {warehouses} warehouses, {orders} orders");
    Ok(())
}
