//! Set-returning functions that clients describe a database by.

use super::of::*;
use super::{Function, Out, Param, Rows, array_at};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::types::{Object, Type};

const A_CLASS: Out = Out::Of(Type::Object(Object::Class));
const ARRAY: Param = Param::Array;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::set("_pg_expandarray", &[ARRAY], AN_INT4, expanded)
        .columns(&[("x", Type::Int4), ("n", Type::Int4)]),
    Function::set("pg_get_keywords", &[], A_TEXT, |_, _| Ok(Box::new(keywords())))
        .columns(&[
            ("word", Type::Text),
            ("catcode", Type::Text),
            ("barelabel", Type::Bool),
            ("catdesc", Type::Text),
            ("baredesc", Type::Text),
        ])
        .stable(),
    // No table has partitions.
    Function::set("pg_partition_ancestors", &[INT4], A_CLASS, none),
    Function::set("pg_partition_tree", &[INT4], A_CLASS, none).columns(&[
        ("relid", Type::Object(Object::Class)),
        ("parentrelid", Type::Object(Object::Class)),
        ("isleaf", Type::Bool),
        ("level", Type::Int4),
    ]),
];

fn none(_: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    Ok(Box::new(std::iter::empty()))
}

/// The elements of an array, and their numbers.
fn expanded(args: &[Datum], _: &Scope<'_>) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    for (at, value) in array_at(args, 0)?.values().iter().enumerate() {
        let element = match (value, value.as_i64().map(i32::try_from)) {
            (Datum::Null, _) => Datum::Null,
            (_, Some(Ok(whole))) => Datum::Int4(whole),
            _ => {
                let message = "_pg_expandarray of other values than integers is not supported";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
            }
        };
        rows.push(Ok(vec![element, Datum::Int4(at as i32 + 1)]));
    }
    Ok(Box::new(rows.into_iter()))
}

/// True for a reserved word that is no value, as `current_date` is.
pub(crate) fn is_reserved(word: &str) -> bool {
    let is_value = word.starts_with("current_")
        || matches!(word, "localtime" | "localtimestamp" | "session_user" | "user");
    let mut entries = KEY_WORDS.split_whitespace().filter_map(|entry| entry.split_once(':'));
    !is_value && entries.any(|(other, code)| other == word && code.starts_with('R'))
}

/// Iterates over the key words with their categories: see [`KEY_WORDS`].
fn keywords() -> impl Iterator<Item = Result<Vec<Datum>, SqlError>> {
    KEY_WORDS.split_whitespace().filter_map(|entry| {
        let (word, code) = entry.split_once(':')?;
        let is_label = !code.ends_with('-');
        let code = code.trim_end_matches('-');
        let category = match code {
            "R" => "reserved",
            "T" => "reserved (can be function or type name)",
            "C" => "unreserved (cannot be function or type name)",
            _ => "unreserved",
        };
        let label = if is_label { "can be bare label" } else { "requires AS" };
        Some(Ok(vec![
            Datum::text(word),
            Datum::text(code),
            Datum::Bool(is_label),
            Datum::text(category),
            Datum::text(label),
        ]))
    })
}

/// PostgreSQL's key words, each with its category: `U`nreserved, `C` for names of columns, `T` for
/// names of functions or types, and `R`eserved; `-` for those that name an output behind AS only.
const KEY_WORDS: &str = "\
    abort:U absolute:U access:U action:U add:U admin:U after:U aggregate:U all:R also:U \
    alter:U always:U analyse:R analyze:R and:R any:R array:R- as:R- asc:R asensitive:U \
    assertion:U assignment:U asymmetric:R at:U atomic:U attach:U attribute:U authorization:T \
    backward:U before:U begin:U between:C bigint:C binary:T bit:C boolean:C both:R breadth:U \
    by:U cache:U call:U called:U cascade:U cascaded:U case:R cast:R catalog:U chain:U char:C- \
    character:C- characteristics:U check:R checkpoint:U class:U close:U cluster:U coalesce:C \
    collate:R collation:T column:R columns:U comment:U comments:U commit:U committed:U \
    compression:U concurrently:T configuration:U conflict:U connection:U constraint:R \
    constraints:U content:U continue:U conversion:U copy:U cost:U create:R- cross:T csv:U \
    cube:U current:U current_catalog:R current_date:R current_role:R current_schema:T \
    current_time:R current_timestamp:R current_user:R cursor:U cycle:U data:U database:U \
    day:U- deallocate:U dec:C decimal:C declare:U default:R defaults:U deferrable:R deferred:U \
    definer:U delete:U delimiter:U delimiters:U depends:U depth:U desc:R detach:U dictionary:U \
    disable:U discard:U distinct:R do:R document:U domain:U double:U drop:U each:U else:R \
    enable:U encoding:U encrypted:U end:R enum:U escape:U event:U except:R- exclude:U \
    excluding:U exclusive:U execute:U exists:C explain:U expression:U extension:U external:U \
    extract:C false:R family:U fetch:R- filter:U- finalize:U first:U float:C following:U \
    for:R- force:U foreign:R forward:U freeze:T from:R- full:T function:U functions:U \
    generated:U global:U grant:R- granted:U greatest:C group:R- grouping:C groups:U handler:U \
    having:R- header:U hold:U hour:U- identity:U if:U ilike:T immediate:U immutable:U \
    implicit:U import:U in:R include:U including:U increment:U index:U indexes:U inherit:U \
    inherits:U initially:R inline:U inner:T inout:C input:U insensitive:U insert:U instead:U \
    int:C integer:C intersect:R- interval:C into:R- invoker:U is:T isnull:T- isolation:U \
    join:T key:U label:U language:U large:U last:U lateral:R leading:R leakproof:U least:C \
    left:T level:U like:T limit:R- listen:U load:U local:U localtime:R localtimestamp:R \
    location:U lock:U locked:U logged:U mapping:U match:U matched:U materialized:U maxvalue:U \
    merge:U method:U minute:U- minvalue:U mode:U month:U- move:U name:U names:U national:C \
    natural:T nchar:C new:U next:U nfc:U nfd:U nfkc:U nfkd:U no:U none:C normalize:C \
    normalized:U not:R nothing:U notify:U notnull:T- nowait:U null:R nullif:C nulls:U \
    numeric:C object:U of:U off:U offset:R- oids:U old:U on:R- only:R operator:U option:U \
    options:U or:R order:R- ordinality:U others:U out:C outer:T over:U- overlaps:T- overlay:C \
    overriding:U owned:U owner:U parallel:U parameter:U parser:U partial:U partition:U \
    passing:U password:U placing:R plans:U policy:U position:C preceding:U precision:C- \
    prepare:U prepared:U preserve:U primary:R prior:U privileges:U procedural:U procedure:U \
    procedures:U program:U publication:U quote:U range:U read:U real:C reassign:U recheck:U \
    recursive:U ref:U references:R referencing:U refresh:U reindex:U relative:U release:U \
    rename:U repeatable:U replace:U replica:U reset:U restart:U restrict:U return:U \
    returning:R- returns:U revoke:U right:T role:U rollback:U rollup:U routine:U routines:U \
    row:C rows:U rule:U savepoint:U schema:U schemas:U scroll:U search:U second:U- security:U \
    select:R sequence:U sequences:U serializable:U server:U session:U session_user:R set:U \
    setof:C sets:U share:U show:U similar:T simple:U skip:U smallint:C snapshot:U some:R sql:U \
    stable:U standalone:U start:U statement:U statistics:U stdin:U stdout:U storage:U stored:U \
    strict:U strip:U subscription:U substring:C support:U symmetric:R sysid:U system:U table:R \
    tables:U tablesample:T tablespace:U temp:U template:U temporary:U text:U then:R ties:U \
    time:C timestamp:C to:R- trailing:R transaction:U transform:U treat:C trigger:U trim:C \
    true:R truncate:U trusted:U type:U types:U uescape:U unbounded:U uncommitted:U \
    unencrypted:U union:R- unique:R unknown:U unlisten:U unlogged:U until:U update:U user:R \
    using:R vacuum:U valid:U validate:U validator:U value:U values:C varchar:C variadic:R \
    varying:U- verbose:T version:U view:U views:U volatile:U when:R where:R- whitespace:U \
    window:R- with:R- within:U- without:U- work:U wrapper:U write:U xml:U xmlattributes:C \
    xmlconcat:C xmlelement:C xmlexists:C xmlforest:C xmlnamespaces:C xmlparse:C xmlpi:C \
    xmlroot:C xmlserialize:C xmltable:C year:U- yes:U zone:U";
