//! The shards and their keys: `meridian.shards`.

use super::{Rows, SystemContext, Writer};
use crate::parse::GroupMembers;

/// A shard of a database, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardFact {
    /// The number.
    pub shard: u32,
    /// The first key.
    pub start: Vec<u8>,
    /// The first key after the shard; `None` for the last shard.
    pub end: Option<Vec<u8>>,
    /// The node that leads its group, if that is known.
    pub leader: Option<u32>,
    /// The members of its group, or the intended ones.
    pub members: GroupMembers,
}

fn list(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    (name == "shards").then_some(shards as Rows)
}

fn shards(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let database = &context.facts.database;
    let facts = context
        .facts
        .server_info()
        .map_or_else(Vec::new, |server_info| server_info.shards(database));
    for ShardFact { shard, start, end, leader, members } in &facts {
        // The table whose rows begin in the shard, or are cut by its start.
        let of_table = |key: &[u8]| {
            let storage = key
                .strip_prefix(&[crate::kv::ROWS])?
                .first_chunk()
                .map(|id| u32::from_be_bytes(*id))?;
            context
                .catalog
                .tables
                .iter()
                .find(|table| table.storage == storage)
                .map(|table| table.name.clone())
        };
        out.row(&[
            ("shard", (*shard).into()),
            ("leader", (*leader).into()),
            ("table_name", of_table(start).into()),
            ("start_key", start.escape_ascii().to_string().into()),
            ("voters", list(&members.voters).into()),
            ("learners", list(&members.learners).into()),
            ("witnesses", list(&members.witnesses).into()),
            ("end_key", end.as_ref().map(|end| end.escape_ascii().to_string()).into()),
        ]);
    }
}
