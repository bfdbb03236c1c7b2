//! EXPLAIN as JSON.

use super::{Actuals, Detail, Explained, Options, Summary};
use serde_json::{Map, Value, json};

pub(super) fn document(
    plan: &Explained,
    options: &Options,
    actuals: Option<&Actuals>,
    summary: &Summary,
) -> String {
    let mut all = Map::new();
    all.insert("Plan".into(), of(plan, options, actuals, None));
    if options.shows_summary() {
        for (name, value) in summary {
            // A time is a number of milliseconds.
            let time = value.strip_suffix(" ms").map(|time| time.parse::<f64>());
            let value = match (time, value.parse::<u64>()) {
                (Some(Ok(time)), _) => json!(time),
                (_, Ok(count)) => json!(count),
                _ => json!(value),
            };
            all.insert((*name).into(), value);
        }
    }
    serde_json::to_string_pretty(&json!([all])).unwrap_or_default()
}

fn of(
    node: &Explained,
    options: &Options,
    actuals: Option<&Actuals>,
    relationship: Option<&str>,
) -> Value {
    let mut out = Map::new();
    out.insert("Node Type".into(), json!(node.kind));
    if let Some(relationship) = relationship {
        out.insert("Parent Relationship".into(), json!(relationship));
    }
    if let Some(name) = &node.subplan {
        out.insert("Subplan Name".into(), json!(name));
    }
    for (name, value) in &node.details {
        if let Detail::Quiet(value) = value {
            out.insert((*name).into(), json!(value));
        }
    }
    if options.costs {
        out.insert("Startup Cost".into(), json!(hundredths(node.cost.startup)));
        out.insert("Total Cost".into(), json!(hundredths(node.cost.total)));
        out.insert("Plan Rows".into(), json!(node.cost.rows.round() as u64));
        out.insert("Plan Width".into(), json!(node.cost.width.round() as u64));
    }
    if let (Some(actuals), Some(id)) = (actuals, node.node) {
        let actual = actuals.get(&id).copied().unwrap_or_default();
        if options.timing {
            let [first, total] = actual.each_ms().map(|ms| (ms * 1e3).round() / 1e3);
            out.insert("Actual Startup Time".into(), json!(first));
            out.insert("Actual Total Time".into(), json!(total));
        }
        let each = actual.rows as f64 / actual.loops.max(1) as f64;
        out.insert("Actual Rows".into(), json!(each.round() as u64));
        out.insert("Actual Loops".into(), json!(actual.loops));
    }
    for (name, value) in &node.details {
        match value {
            Detail::Text(value) => out.insert((*name).into(), json!(value)),
            Detail::List(values) => out.insert((*name).into(), json!(values)),
            Detail::Quiet(_) => continue,
        };
    }
    if !node.inputs.is_empty() {
        let mut sides = ["Outer", "Inner"].into_iter();
        let inputs = node.inputs.iter().map(|input| {
            let side = match (&input.subplan, node.kind) {
                (Some(_), _) => "InitPlan",
                (None, "Append" | "SetOp") => "Member",
                (None, _) => sides.next().unwrap_or("Member"),
            };
            of(input, options, actuals, Some(side))
        });
        out.insert("Plans".into(), Value::Array(inputs.collect()));
    }
    Value::Object(out)
}

fn hundredths(cost: f64) -> f64 {
    (cost * 100.0).round() / 100.0
}
