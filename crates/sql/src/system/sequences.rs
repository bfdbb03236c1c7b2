//! The rows about sequences.

use super::{Rows, SystemContext, Writer};
use crate::sequence::Sequence;

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_sequence" => sequence,
        "pg_sequences" => sequences,
        "sequences" => of_standard,
        _ => return None,
    })
}

fn sequence(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for sequence in &context.catalog.sequences {
        out.row(&[
            ("seqrelid", sequence.id.into()),
            ("seqtypid", sequence.ty.oid().into()),
            ("seqstart", sequence.start.into()),
            ("seqincrement", sequence.increment.into()),
            ("seqmax", sequence.max.into()),
            ("seqmin", sequence.min.into()),
            ("seqcache", sequence.cache.into()),
            ("seqcycle", sequence.cycle.into()),
        ]);
    }
}

fn sequences(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for sequence in &context.catalog.sequences {
        let value = context.values.get(&sequence.id).filter(|value| value.is_called);
        out.row(&[
            ("schemaname", context.catalog.schema_name(sequence.schema).into()),
            ("sequencename", sequence.name.as_str().into()),
            ("sequenceowner", context.facts.user.as_str().into()),
            ("data_type", sequence.ty.name().into()),
            ("start_value", sequence.start.into()),
            ("min_value", sequence.min.into()),
            ("max_value", sequence.max.into()),
            ("increment_by", sequence.increment.into()),
            ("cycle", sequence.cycle.into()),
            ("cache_size", sequence.cache.into()),
            ("last_value", value.map(|value| value.last).into()),
        ]);
    }
}

/// Returns the bits of a sequence's type.
fn bits(sequence: &Sequence) -> i32 {
    i32::from(sequence.ty.length()) * 8
}

fn of_standard(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for sequence in &context.catalog.sequences {
        // Those of identity columns are shown with their columns.
        if sequence.owner.is_some_and(|owner| owner.is_identity) {
            continue;
        }
        out.row(&[
            ("sequence_catalog", context.facts.database.as_str().into()),
            ("sequence_schema", context.catalog.schema_name(sequence.schema).into()),
            ("sequence_name", sequence.name.as_str().into()),
            ("data_type", sequence.ty.name().into()),
            ("numeric_precision", bits(sequence).into()),
            ("numeric_precision_radix", 2.into()),
            ("numeric_scale", 0.into()),
            ("start_value", sequence.start.to_string().into()),
            ("minimum_value", sequence.min.to_string().into()),
            ("maximum_value", sequence.max.to_string().into()),
            ("increment", sequence.increment.to_string().into()),
            ("cycle_option", sequence.cycle.into()),
        ]);
    }
}
