//! The column types, with PostgreSQL's names and object ids.

use crate::enumeration::Enum;
use std::fmt;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `double precision`
    Float8,
    /// `numeric`, perhaps with (precision, scale)
    Numeric(Option<(u16, i16)>),
    /// `text`
    Text,
    /// `character varying`, perhaps with a limit in characters
    Varchar(Option<u32>),
    /// `character(n)`, padded with blanks
    Char(u32),
    /// `bytea`
    Bytea,
    /// `uuid`
    Uuid,
    /// `date`
    Date,
    /// `time without time zone`
    Time,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    TimestampTz,
    /// `interval`
    Interval,
    /// `inet`
    Inet,
    /// `cidr`
    Cidr,
    /// `json`, which keeps its text
    Json,
    /// `jsonb`
    Jsonb,
    /// An array of any dimensions
    Array(Element),
    /// `int2vector`: numbers of columns, in system tables
    Int2Vector,
    /// The id of an object, shown by the object's name: `regclass` and others
    Object(Object),
    /// An enum type of the database
    Enum(Enum),
    /// `void`: the result of functions that return nothing, which is an empty text
    Void,
    /// `record`: a column that SEARCH has added to a query, which no table stores
    Record,
    /// `record[]`, of SEARCH and CYCLE
    Records,
}

/// A kind of objects that a type has the ids of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// Relations: `regclass`
    Class,
    /// Types: `regtype`
    Type,
    /// Schemas: `regnamespace`
    Namespace,
    /// Roles: `regrole`
    Role,
    /// Functions: `regproc`
    Procedure,
}

impl Object {
    /// Returns the name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Object::Class => "regclass",
            Object::Type => "regtype",
            Object::Namespace => "regnamespace",
            Object::Role => "regrole",
            Object::Procedure => "regproc",
        }
    }

    /// Finds a kind by the name of its type.
    pub fn named(name: &str) -> Option<Object> {
        Some(match name {
            "regclass" => Object::Class,
            "regtype" => Object::Type,
            "regnamespace" => Object::Namespace,
            "regrole" => Object::Role,
            "regproc" | "regprocedure" | "regoper" | "regoperator" => Object::Procedure,
            _ => return None,
        })
    }
}

/// The type of an array's elements. An array of arrays is an array of more dimensions, so no
/// element is an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    oid: u32,
    modifier: i32,
    /// The type, if it is an enum type.
    of: Option<Enum>,
}

impl Element {
    /// Returns the type.
    pub const fn ty(self) -> Type {
        match (self.of, Type::with_modifier(self.oid, self.modifier)) {
            (Some(ty), _) => Type::Enum(ty),
            (None, Some(ty)) => ty,
            (None, None) => Type::Text,
        }
    }

    /// Returns the object id of arrays of it, and their name.
    const fn array(self) -> (u32, &'static str) {
        match self.of {
            Some(ty) => (ty.array_id(), ty.shown_array()),
            None => array_of(self.oid),
        }
    }
}

/// The types that arrays have as elements: object id, the array's object id, and its name.
pub(crate) const ARRAYS: [(u32, u32, &str); 20] = [
    (16, 1000, "boolean[]"),
    (17, 1001, "bytea[]"),
    (20, 1016, "bigint[]"),
    (21, 1005, "smallint[]"),
    (23, 1007, "integer[]"),
    (25, 1009, "text[]"),
    (114, 199, "json[]"),
    (650, 651, "cidr[]"),
    (701, 1022, "double precision[]"),
    (869, 1041, "inet[]"),
    (1042, 1014, "character[]"),
    (1043, 1015, "character varying[]"),
    (1082, 1182, "date[]"),
    (1083, 1183, "time without time zone[]"),
    (1114, 1115, "timestamp without time zone[]"),
    (1184, 1185, "timestamp with time zone[]"),
    (1186, 1187, "interval[]"),
    (1700, 1231, "numeric[]"),
    (2950, 2951, "uuid[]"),
    (3802, 3807, "jsonb[]"),
];

/// Returns the array of an element's object id: its own object id and its name.
const fn array_of(element: u32) -> (u32, &'static str) {
    let mut at = 0;
    while at < ARRAYS.len() {
        if ARRAYS[at].0 == element {
            return (ARRAYS[at].1, ARRAYS[at].2);
        }
        at += 1;
    }
    (1009, "text[]")
}

impl Type {
    /// Returns the type of arrays of it; of an array, itself.
    pub const fn array(self) -> Type {
        match self {
            Type::Array(_) => self,
            Type::Int2Vector => Type::Int2.array(),
            Type::Enum(of) => Type::Array(Element { oid: of.id(), modifier: -1, of: Some(of) }),
            ty => Type::Array(Element { oid: ty.oid(), modifier: ty.modifier(), of: None }),
        }
    }

    /// Returns the type of an array's elements; `None` if it is no array.
    pub const fn element(self) -> Option<Type> {
        match self {
            Type::Array(element) => Some(element.ty()),
            Type::Int2Vector => Some(Type::Int2),
            _ => None,
        }
    }

    /// Returns PostgreSQL's object id of the type.
    pub const fn oid(self) -> u32 {
        match self {
            Type::Bool => 16,
            Type::Bytea => 17,
            Type::Int8 => 20,
            Type::Int2 => 21,
            Type::Int4 => 23,
            Type::Text => 25,
            Type::Json => 114,
            Type::Cidr => 650,
            Type::Inet => 869,
            Type::Float8 => 701,
            Type::Char(_) => 1042,
            Type::Varchar(_) => 1043,
            Type::Date => 1082,
            Type::Time => 1083,
            Type::Timestamp => 1114,
            Type::TimestampTz => 1184,
            Type::Interval => 1186,
            Type::Numeric(_) => 1700,
            Type::Uuid => 2950,
            Type::Jsonb => 3802,
            Type::Array(element) => element.array().0,
            Type::Enum(ty) => ty.id(),
            Type::Int2Vector => 22,
            Type::Void => 2278,
            Type::Record => 2249,
            Type::Records => 2287,
            Type::Object(Object::Class) => 2205,
            Type::Object(Object::Type) => 2206,
            Type::Object(Object::Namespace) => 4089,
            Type::Object(Object::Role) => 4096,
            Type::Object(Object::Procedure) => 24,
        }
    }

    /// Returns the type of an object id; `None` for unknown ones, for those of enum types, and for
    /// 0 and 705 (not specified).
    pub const fn from_oid(oid: u32) -> Option<Type> {
        Some(match oid {
            16 => Type::Bool,
            17 => Type::Bytea,
            20 => Type::Int8,
            21 => Type::Int2,
            23 | 26 => Type::Int4,
            25 | 19 => Type::Text,
            700 | 701 => Type::Float8,
            1042 => Type::Char(0),
            1043 => Type::Varchar(None),
            1082 => Type::Date,
            1083 => Type::Time,
            1114 => Type::Timestamp,
            1184 => Type::TimestampTz,
            1186 => Type::Interval,
            1700 => Type::Numeric(None),
            2950 => Type::Uuid,
            114 => Type::Json,
            650 => Type::Cidr,
            869 => Type::Inet,
            3802 => Type::Jsonb,
            1002 | 1003 => Type::Text.array(),
            1021 => Type::Float8.array(),
            1028 => Type::Int4.array(),
            _ => {
                let mut at = 0;
                while at < ARRAYS.len() {
                    if ARRAYS[at].1 == oid {
                        return match Type::from_oid(ARRAYS[at].0) {
                            Some(element) => Some(element.array()),
                            None => None,
                        };
                    }
                    at += 1;
                }
                return None;
            }
        })
    }

    /// Returns the type of an object id and a modifier.
    pub const fn with_modifier(oid: u32, modifier: i32) -> Option<Type> {
        Some(match (Type::from_oid(oid), modifier) {
            (None, _) => return None,
            (Some(ty), ..4) => ty,
            (Some(Type::Array(element)), n) => Type::Array(Element { modifier: n, ..element }),
            (Some(Type::Varchar(_)), n) => Type::Varchar(Some(n as u32 - 4)),
            (Some(Type::Char(_)), n) => Type::Char(n as u32 - 4),
            (Some(Type::Numeric(_)), n) => {
                // The scale has eleven bits.
                let scale = (((n - 4) & 0x7FF) ^ 0x400) - 0x400;
                Type::Numeric(Some((((n - 4) >> 16) as u16, scale as i16)))
            }
            (Some(ty), _) => ty,
        })
    }

    /// Returns the SQL name without modifiers.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Bool => "boolean",
            Type::Int2 => "smallint",
            Type::Int4 => "integer",
            Type::Int8 => "bigint",
            Type::Float8 => "double precision",
            Type::Numeric(_) => "numeric",
            Type::Text => "text",
            Type::Varchar(_) => "character varying",
            Type::Char(_) => "character",
            Type::Bytea => "bytea",
            Type::Uuid => "uuid",
            Type::Date => "date",
            Type::Time => "time without time zone",
            Type::Timestamp => "timestamp without time zone",
            Type::TimestampTz => "timestamp with time zone",
            Type::Interval => "interval",
            Type::Inet => "inet",
            Type::Cidr => "cidr",
            Type::Json => "json",
            Type::Jsonb => "jsonb",
            Type::Array(element) => element.array().1,
            Type::Enum(ty) => ty.shown(),
            Type::Int2Vector => "int2vector",
            Type::Void => "void",
            Type::Record => "record",
            Type::Records => "record[]",
            Type::Object(kind) => kind.name(),
        }
    }

    /// Returns the size on the wire in bytes, -1 if it varies: `typlen`.
    pub const fn length(self) -> i16 {
        match self {
            Type::Bool => 1,
            Type::Int2 => 2,
            Type::Int4 | Type::Date | Type::Object(_) | Type::Enum(_) | Type::Void => 4,
            Type::Int8 | Type::Float8 | Type::Time | Type::Timestamp | Type::TimestampTz => 8,
            Type::Uuid | Type::Interval => 16,
            _ => -1,
        }
    }

    /// Returns the modifier on the wire, -1 without one: `atttypmod`.
    pub const fn modifier(self) -> i32 {
        match self {
            Type::Varchar(Some(n)) => n as i32 + 4,
            Type::Char(n) if n > 0 => n as i32 + 4,
            Type::Numeric(Some((precision, scale))) => {
                (((precision as i32) << 16) | (scale as i32 & 0x7FF)) + 4
            }
            Type::Array(element) => element.modifier,
            _ => -1,
        }
    }

    /// Returns the enum type that it is, or that its elements have.
    pub const fn enumeration(self) -> Option<Enum> {
        match self {
            Type::Enum(of) => Some(of),
            Type::Array(element) => element.of,
            _ => None,
        }
    }

    /// Returns it with another version of its enum type.
    pub(crate) fn with_version(self, new: Enum) -> Type {
        match self {
            Type::Enum(old) if old == new => Type::Enum(new),
            Type::Array(element) if element.of == Some(new) => Type::Enum(new).array(),
            other => other,
        }
    }

    /// True for rows as values, which only SEARCH and CYCLE make.
    pub const fn is_record(self) -> bool {
        matches!(self, Type::Record | Type::Records)
    }

    /// True if it is text of any kind.
    pub const fn is_text(self) -> bool {
        matches!(self, Type::Text | Type::Varchar(_) | Type::Char(_))
    }

    /// True if its values are equal or not, and have an order: those of `json` have neither.
    pub const fn has_order(self) -> bool {
        match self {
            Type::Json | Type::Void => false,
            Type::Array(element) => element.oid != Type::Json.oid(),
            _ => true,
        }
    }

    /// True if it is a whole number.
    pub const fn is_integer(self) -> bool {
        matches!(self, Type::Int2 | Type::Int4 | Type::Int8)
    }

    /// True if arithmetic is defined on it.
    pub const fn is_number(self) -> bool {
        matches!(self, Type::Int2 | Type::Int4 | Type::Int8 | Type::Float8 | Type::Numeric(_))
    }

    /// Returns the type without its modifier, as parameters have it.
    pub const fn unlimited(self) -> Type {
        match self {
            Type::Varchar(_) => Type::Varchar(None),
            Type::Char(_) => Type::Char(0),
            other => other.base(),
        }
    }

    /// Returns the type in which expressions are computed: without a modifier, except that of
    /// `character`.
    pub const fn base(self) -> Type {
        match self {
            Type::Numeric(_) => Type::Numeric(None),
            Type::Varchar(_) => Type::Text,
            Type::Array(element) => element.ty().base().array(),
            other => other,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Varchar(Some(n)) => write!(f, "character varying({n})"),
            Type::Char(n) if *n > 0 => write!(f, "character({n})"),
            Type::Numeric(Some((precision, scale))) => write!(f, "numeric({precision},{scale})"),
            Type::Array(element) => write!(f, "{}[]", element.ty()),
            other => f.write_str(other.name()),
        }
    }
}
