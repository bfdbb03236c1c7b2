//! The functions by which types are read and written, as `pg_type` names them and `pg_proc` lists
//! them. They cannot be called: clients tell the kinds of types by their names.

use super::Value;
use super::functions::{ANY, CSTRING, INTERNAL_TYPE, Procedure};
use crate::function::Volatility;
use crate::types::Type;

/// The functions of a type: the beginning of their names, and their ids, of those for input,
/// output, receive and send.
type Functions = (&'static str, [u32; 4]);

/// The pseudo-types of any array, and of any enum.
const ANY_ARRAY: u32 = 2277;
const ANY_ENUM: u32 = 3500;

const ENDS: [&str; 4] = ["in", "out", "recv", "send"];

pub(super) const ARRAY: Functions = ("array_", [750, 751, 2400, 2401]);
/// Those of domains: values are written and sent as those of the base type.
const DOMAIN: Functions = ("domain_", [2597, 0, 2598, 0]);
pub(super) const ENUM: Functions = ("enum_", [3506, 3507, 3532, 3533]);
pub(super) const ROW: Functions = ("record_", [2290, 2291, 2402, 2403]);

/// The functions of PostgreSQL's types, and the alignment of these.
const OF_TYPES: [(u32, Functions, &str); 57] = [
    (16, ("bool", [1242, 1243, 2436, 2437]), "c"),
    (17, ("bytea", [1244, 31, 2412, 2413]), "i"),
    (18, ("char", [1245, 33, 2434, 2435]), "c"),
    (19, ("name", [34, 35, 2422, 2423]), "c"),
    (20, ("int8", [460, 461, 2408, 2409]), "d"),
    (21, ("int2", [38, 39, 2404, 2405]), "s"),
    (22, ("int2vector", [40, 41, 2410, 2411]), "i"),
    (23, ("int4", [42, 43, 2406, 2407]), "i"),
    (24, ("regproc", [44, 45, 2444, 2445]), "i"),
    (25, ("text", [46, 47, 2414, 2415]), "i"),
    (26, ("oid", [1798, 1799, 2418, 2419]), "i"),
    (28, ("xid", [50, 51, 2440, 2441]), "i"),
    (30, ("oidvector", [54, 55, 2420, 2421]), "i"),
    (114, ("json_", [321, 322, 323, 324]), "i"),
    (194, ("pg_node_tree_", [195, 196, 197, 198]), "i"),
    (650, ("cidr_", [1267, 1427, 2498, 2499]), "i"),
    (700, ("float4", [200, 201, 2424, 2425]), "i"),
    (701, ("float8", [214, 215, 2426, 2427]), "d"),
    (705, ("unknown", [109, 110, 2416, 2417]), "c"),
    (869, ("inet_", [910, 911, 2496, 2497]), "i"),
    (1033, ("aclitem", [1031, 1032, 0, 0]), "i"),
    (1042, ("bpchar", [1044, 1045, 2430, 2431]), "i"),
    (1043, ("varchar", [1046, 1047, 2432, 2433]), "i"),
    (1082, ("date_", [1084, 1085, 2468, 2469]), "i"),
    (1083, ("time_", [1143, 1144, 2470, 2471]), "d"),
    (1114, ("timestamp_", [1312, 1313, 2474, 2475]), "d"),
    (1184, ("timestamptz_", [1150, 1151, 2476, 2477]), "d"),
    (1186, ("interval_", [1160, 1161, 2478, 2479]), "d"),
    (1266, ("timetz_", [1350, 1351, 2472, 2473]), "d"),
    (1560, ("bit_", [1564, 1565, 2456, 2457]), "i"),
    (1562, ("varbit_", [1579, 1580, 2458, 2459]), "i"),
    (1700, ("numeric_", [1701, 1702, 2460, 2461]), "i"),
    (2202, ("regprocedure", [2212, 2213, 2446, 2447]), "i"),
    (2203, ("regoper", [2214, 2215, 2448, 2449]), "i"),
    (2204, ("regoperator", [2216, 2217, 2450, 2451]), "i"),
    (2205, ("regclass", [2218, 2219, 2452, 2453]), "i"),
    (2206, ("regtype", [2220, 2221, 2454, 2455]), "i"),
    (2249, ("record_", [2290, 2291, 2402, 2403]), "d"),
    (2275, ("cstring_", [2292, 2293, 2500, 2501]), "c"),
    (2276, ("any_", [2294, 2295, 0, 0]), "i"),
    (2277, ("anyarray_", [2296, 2297, 2502, 2503]), "d"),
    (2278, ("void_", [2298, 2299, 3120, 3121]), "i"),
    (2281, ("internal_", [2304, 2305, 0, 0]), "d"),
    (2776, ("anynonarray_", [2777, 2778, 0, 0]), "i"),
    (2950, ("uuid_", [2952, 2953, 2961, 2962]), "c"),
    (3220, ("pg_lsn_", [3229, 3230, 3238, 3239]), "d"),
    (3361, ("pg_ndistinct_", [3355, 3356, 3357, 3358]), "i"),
    (3402, ("pg_dependencies_", [3404, 3405, 3406, 3407]), "i"),
    (3802, ("jsonb_", [3806, 3804, 3805, 3803]), "i"),
    (4072, ("jsonpath_", [4001, 4003, 4002, 4004]), "i"),
    (4089, ("regnamespace", [4084, 4085, 4087, 4088]), "i"),
    (4096, ("regrole", [4098, 4092, 4094, 4095]), "i"),
    (4191, ("regcollation", [4193, 4194, 4196, 4197]), "i"),
    (3500, ("anyenum_", [3504, 3505, 0, 0]), "i"),
    (5017, ("pg_mcv_list_", [5018, 5019, 5020, 5021]), "i"),
    (5077, ("anycompatible_", [5086, 5087, 0, 0]), "i"),
    (5078, ("anycompatiblearray_", [5088, 5089, 5090, 5091]), "d"),
];

/// The functions that find the elements of values.
const SUBSCRIPTS: [(&str, u32); 3] = [
    ("array_subscript_handler", 6179),
    ("jsonb_subscript_handler", 6098),
    ("raw_array_subscript_handler", 6180),
];

/// Returns the functions of a type that every database has.
pub(super) fn of_type(oid: u32) -> Option<Functions> {
    OF_TYPES.iter().find(|(other, ..)| *other == oid).map(|(_, functions, _)| *functions)
}

/// Returns PostgreSQL's alignment of a type: it has no meaning here, and tools compare it. Arrays
/// are aligned for their headers, or for their elements if these need more.
pub(super) fn alignment(oid: u32, of_element: Option<u32>) -> &'static str {
    match of_element.map(|element| alignment(element, None)) {
        Some("d") => return "d",
        Some(_) => return "i",
        None => {}
    }
    OF_TYPES.iter().find(|(other, ..)| *other == oid).map_or("i", |(.., alignment)| alignment)
}

/// Returns the columns of `pg_type` that name a type's functions.
pub(super) fn columns<'a>((stem, ids): Functions) -> [(&'a str, Value<'a>); 4] {
    let value = |at: usize| match ids[at] {
        0 => Value::Procedure(0, "-".to_owned()),
        id => Value::Procedure(id, format!("{stem}{}", ENDS[at])),
    };
    [
        ("typinput", value(0)),
        ("typoutput", value(1)),
        ("typreceive", value(2)),
        ("typsend", value(3)),
    ]
}

/// Returns the columns of `pg_type` that name a domain's functions, over a base type of some.
pub(super) fn of_domain<'a>(base: Functions) -> [(&'a str, Value<'a>); 4] {
    let [_, output, _, send] = columns(base);
    let [input, _, receive, _] = columns(DOMAIN);
    [input, output, receive, send]
}

/// Returns the function that finds the elements of a type's values.
pub(super) fn subscript<'a>(oid: u32, is_array: bool) -> Value<'a> {
    let at = match oid {
        _ if is_array => 0,
        3802 => 1,
        19 => 2,
        _ => return Value::Procedure(0, "-".to_owned()),
    };
    let (name, id) = SUBSCRIPTS[at];
    Value::Procedure(id, name.to_owned())
}

/// Types whose functions for input and receive also get the type of the elements and a modifier.
const WITH_MODIFIER: [&str; 13] = [
    "array_",
    "bit_",
    "bpchar",
    "domain_",
    "interval_",
    "numeric_",
    "record_",
    "time_",
    "timestamp_",
    "timestamptz_",
    "timetz_",
    "varbit_",
    "varchar",
];

/// Functions whose results depend on settings, or on the catalog.
fn is_stable(stem: &str, end: &str) -> bool {
    let is_reg = stem.starts_with("reg");
    match end {
        "in" if matches!(stem, "time_" | "timetz_") => true,
        "in" | "out" => {
            let is_time = matches!(stem, "date_" | "timestamp_" | "timestamptz_" | "interval_");
            let is_made = matches!(stem, "array_" | "record_" | "enum_" | "anyarray_" | "anyenum_");
            let is_made = is_made || stem == "anycompatiblearray_";
            let is_input = end == "in";
            is_reg
                || is_time
                || is_made && !(is_input && stem.starts_with("any"))
                || stem == "aclitem"
                || is_input && stem == "domain_"
        }
        _ => {
            let is_text = matches!(stem, "text" | "name" | "bpchar" | "varchar" | "cstring_");
            let is_made = matches!(stem, "array_" | "record_" | "enum_" | "anyarray_" | "domain_");
            let is_statistics = stem.starts_with("pg_") && stem != "pg_lsn_";
            is_text || is_made || is_statistics || stem == "anycompatiblearray_"
        }
    }
}

/// Iterates over all of them.
pub(super) fn all() -> impl Iterator<Item = Procedure> {
    let of_types = OF_TYPES.iter().map(|(oid, functions, _)| (*oid, functions));
    let made = [(ANY_ARRAY, &ARRAY), (ANY, &DOMAIN), (ANY_ENUM, &ENUM)];
    let functions = of_types.chain(made).flat_map(|(oid, (stem, ids))| {
        let ends = ENDS.iter().zip(ids).filter(|(_, id)| **id > 0);
        ends.map(move |(end, id)| function(oid, stem, end, *id))
    });
    let subscripts = SUBSCRIPTS.map(|(name, oid)| Procedure {
        oid,
        ..Procedure::new(name, vec![INTERNAL_TYPE], INTERNAL_TYPE)
    });
    functions.chain(subscripts)
}

fn function(oid: u32, stem: &str, end: &str, id: u32) -> Procedure {
    let is_reading = matches!(end, "in" | "recv");
    let mut params = match end {
        "in" => vec![CSTRING],
        "recv" => vec![INTERNAL_TYPE],
        _ => vec![oid],
    };
    if is_reading && stem == "enum_" {
        params.push(Type::Oid.oid());
    } else if is_reading && WITH_MODIFIER.contains(&stem) {
        params.extend([Type::Oid.oid(), Type::Int4.oid()]);
    }
    let result = match end {
        "out" => CSTRING,
        "send" => Type::Bytea.oid(),
        _ => oid,
    };
    let volatility = match is_stable(stem, end) {
        true => Volatility::Stable,
        false => Volatility::Immutable,
    };
    let name = format!("{stem}{end}");
    // A domain may refuse NULLs.
    let is_strict = !(is_reading && matches!(stem, "domain_" | "internal_"));
    Procedure { oid: id, volatility, is_strict, ..Procedure::new(name, params, result) }
}
