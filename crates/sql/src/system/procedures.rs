//! The object ids of functions, which `regproc` shows by their names. `pg_proc` does not list them.

use super::input_functions;
use crate::error::{SqlError, state};
use crate::function;

/// The functions whose names no other function has in PostgreSQL: `name:oid`.
const NAMES: &str = "\
    acldefault:3943 acos:1601 acosh:2466 array_append:378 array_cat:383 array_dims:747 \
    array_length:2176 array_lower:2091 array_ndims:748 array_positions:3279 array_prepend:379 \
    array_remove:3167 array_replace:3168 array_upper:2092 ascii:1620 asin:1600 asinh:2465 \
    atan:1602 atan2:1603 atanh:2467 bool_and:2517 bool_or:2518 broadcast:698 cardinality:3179 \
    cbrt:1345 chr:1621 clock_timestamp:2649 col_description:1216 concat:3058 concat_ws:3059 \
    convert_from:1714 convert_to:1717 cos:1605 cosh:2463 cot:1607 current_database:861 \
    current_schema:1402 current_schemas:1403 current_user:745 currval:1575 decode:1947 \
    degrees:1608 div:1973 encode:1946 every:2519 factorial:1376 family:711 format_type:1081 \
    gen_random_uuid:3432 get_byte:721 getdatabaseencoding:1039 host:699 hostmask:1362 \
    inet_merge:4063 inet_same_family:4071 inet_server_addr:2198 inet_server_port:2199 initcap:872 \
    json_agg:3175 json_array_elements:3955 json_array_elements_text:3969 json_array_length:3956 \
    json_each:3958 json_each_text:3959 json_extract_path:3951 json_extract_path_text:3953 \
    json_object_agg:3197 json_object_keys:3957 json_strip_nulls:3261 json_typeof:3968 \
    jsonb_agg:3267 jsonb_array_elements:3219 jsonb_array_elements_text:3465 \
    jsonb_array_length:3207 jsonb_delete_path:3304 jsonb_each:3208 jsonb_each_text:3932 \
    jsonb_extract_path:3217 jsonb_extract_path_text:3940 jsonb_insert:3579 jsonb_object_agg:3270 \
    jsonb_object_keys:3931 jsonb_pretty:3306 jsonb_set:3305 jsonb_strip_nulls:3262 \
    jsonb_typeof:3210 justify_days:1295 justify_hours:1175 justify_interval:2711 lastval:2559 \
    left:3060 make_date:3846 make_interval:3464 make_time:3847 make_timestamp:3461 masklen:697 \
    min_scale:5042 mode:3984 netmask:696 network:683 nextval:1574 now:1299 num_nonnulls:440 \
    num_nulls:438 pg_backend_pid:2026 pg_blocking_pids:2561 pg_cancel_backend:2171 \
    pg_char_to_encoding:1264 pg_client_encoding:810 pg_collation_is_visible:3815 \
    pg_conversion_is_visible:2093 pg_encoding_to_char:1597 pg_function_is_visible:2081 \
    pg_get_function_arguments:2162 pg_get_function_identity_arguments:2232 \
    pg_get_function_result:2165 pg_get_keywords:1686 pg_get_partkeydef:3352 \
    pg_get_serial_sequence:1665 pg_get_statisticsobjdef_columns:6174 pg_get_userbyid:1642 \
    pg_indexes_size:2998 pg_is_in_recovery:3810 pg_is_other_temp_schema:2855 \
    pg_my_temp_schema:2854 pg_opclass_is_visible:2083 pg_operator_is_visible:2082 \
    pg_opfamily_is_visible:3829 pg_options_to_table:2289 pg_partition_ancestors:3425 \
    pg_partition_tree:3423 pg_relation_is_publishable:6121 pg_stat_get_blocks_fetched:1934 \
    pg_stat_get_blocks_hit:1935 pg_stat_get_dead_tuples:2879 pg_stat_get_live_tuples:2878 \
    pg_stat_get_numscans:1928 pg_stat_get_tuples_deleted:1933 pg_stat_get_tuples_fetched:1930 \
    pg_stat_get_tuples_inserted:1931 pg_stat_get_tuples_returned:1929 \
    pg_stat_get_tuples_updated:1932 pg_statistics_obj_is_visible:3403 pg_table_is_visible:2079 \
    pg_table_size:2997 pg_tablespace_location:3778 pg_terminate_backend:2096 \
    pg_total_relation_size:2286 pg_ts_config_is_visible:3758 pg_ts_dict_is_visible:3757 \
    pg_ts_parser_is_visible:3756 pg_ts_template_is_visible:3768 pg_type_is_visible:2080 pi:1610 \
    quote_ident:1282 radians:1609 random:1598 repeat:1622 replace:2087 reverse:3062 right:3061 \
    scale:3281 session_user:746 set_config:2078 shobj_description:1993 sin:1604 sinh:2462 \
    split_part:2088 starts_with:3696 statement_timestamp:2648 strpos:868 tan:1606 tanh:2464 \
    to_date:1780 to_json:3176 to_jsonb:3787 to_regclass:3495 to_regtype:3493 \
    transaction_timestamp:2647 translate:878 trim_array:6172 trim_scale:5043 txid_current:2943 \
    version:89";

fn all() -> impl Iterator<Item = (&'static str, u32)> {
    NAMES.split_whitespace().filter_map(|row| {
        let (name, oid) = row.split_once(':')?;
        Some((name, oid.parse().ok()?))
    })
}

/// Returns the id of a function by its name. Fails with 42883 if there is none, with 42725 if
/// several have the name.
pub(crate) fn procedure_named(name: &str) -> Result<u32, SqlError> {
    let plain = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let known = all().find(|(other, _)| *other == plain).map(|(_, oid)| oid);
    if let Some(oid) = known.or_else(|| input_functions::procedure_named(plain)) {
        return Ok(oid);
    }
    Err(match function::named(plain) {
        [] => {
            let message = format!("function \"{name}\" does not exist");
            SqlError::new(state::UNDEFINED_FUNCTION, message)
        }
        _ => SqlError::new("42725", format!("more than one function named \"{name}\"")),
    })
}

/// Returns the name of a function, by its id.
pub(crate) fn procedure_name(oid: u32) -> Option<String> {
    let known = all().find(|(_, other)| *other == oid).map(|(name, _)| name.to_owned());
    known.or_else(|| input_functions::procedure_name(oid))
}
