//! The column types, with PostgreSQL's names and object ids.

use crate::base_type::BaseType;
use crate::catalog::UserType;
use crate::composite::Composite;
use crate::enumeration::Enum;
use crate::rounded::Rounded;
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
    /// `real`
    Float4,
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
    /// `name`: text of at most 63 bytes
    Name,
    /// `"char"`: text of one byte, in system tables
    ByteChar,
    /// `bytea`
    Bytea,
    /// `uuid`
    Uuid,
    /// `date`
    Date,
    /// `time without time zone`
    Time,
    /// `time with time zone`
    TimeTz,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    TimestampTz,
    /// `interval`
    Interval,
    /// A type of times with a modifier
    Rounded(Rounded),
    /// `inet`
    Inet,
    /// `cidr`
    Cidr,
    /// `json`, which keeps its text
    Json,
    /// `jsonb`
    Jsonb,
    /// `jsonpath`
    JsonPath,
    /// `hstore`, of the extension with this name
    Hstore,
    /// An array of any dimensions
    Array(Element),
    /// `bit(n)`, or `bit` without a length
    Bit(Option<u32>),
    /// `bit varying`, perhaps with a limit in bits
    Varbit(Option<u32>),
    /// `int2vector`: numbers of columns, in system tables
    Int2Vector,
    /// `oidvector`: ids of objects, in system tables
    OidVector,
    /// `oid`: the id of an object
    Oid,
    /// `xid`: the id of a transaction, which PostgreSQL's system tables have
    Xid,
    /// A type of PostgreSQL's system tables, whose values are shown as text
    Internal(Internal),
    /// The id of an object, shown by the object's name: `regclass` and others
    Object(Object),
    /// An enum type of the database
    Enum(Enum),
    /// `void`: the result of functions that return nothing, which is an empty text
    Void,
    /// `record`: rows whose fields each value tells; no table stores them
    Record,
    /// A composite type of the database, or the row type of a table
    Composite(Composite),
    /// A base type that an extension has brought to the database
    Base(BaseType),
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
    /// Functions by their names: `regproc`
    Procedure,
    /// Functions by their names and the types of their parameters: `regprocedure`
    Signature,
    /// Operators by their names: `regoper`
    Operator,
    /// Operators by their names and the types of their operands: `regoperator`
    OperatorSignature,
    /// Collations: `regcollation`
    Collation,
}

impl Object {
    const ALL: [(Object, u32, &'static str); 9] = [
        (Object::Class, 2205, "regclass"),
        (Object::Type, 2206, "regtype"),
        (Object::Namespace, 4089, "regnamespace"),
        (Object::Role, 4096, "regrole"),
        (Object::Procedure, 24, "regproc"),
        (Object::Signature, 2202, "regprocedure"),
        (Object::Operator, 2203, "regoper"),
        (Object::OperatorSignature, 2204, "regoperator"),
        (Object::Collation, 4191, "regcollation"),
    ];

    /// Returns the object id of the type.
    pub const fn oid(self) -> u32 {
        Object::ALL[self as usize].1
    }

    /// Returns the name of the type.
    pub const fn name(self) -> &'static str {
        Object::ALL[self as usize].2
    }

    /// Finds a kind by the object id of its type.
    pub const fn of_oid(oid: u32) -> Option<Object> {
        let mut at = 0;
        while at < Object::ALL.len() {
            if Object::ALL[at].1 == oid {
                return Some(Object::ALL[at].0);
            }
            at += 1;
        }
        None
    }

    /// Finds a kind by the name of its type.
    pub fn named(name: &str) -> Option<Object> {
        Object::ALL.iter().find(|(.., other)| *other == name).map(|(kind, ..)| *kind)
    }
}

/// A type of PostgreSQL's system tables that no expression computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Internal {
    /// Expressions: `pg_node_tree`
    NodeTree,
    /// Privileges: `aclitem`
    AclItem,
    /// Positions in a log: `pg_lsn`
    Lsn,
    /// An array of any type: `anyarray`
    AnyArray,
    /// Statistics of several columns: `pg_ndistinct`
    NDistinct,
    /// Statistics of several columns: `pg_dependencies`
    Dependencies,
    /// Statistics of several columns: `pg_mcv_list`
    McvList,
}

impl Internal {
    const ALL: [(Internal, u32, &'static str); 7] = [
        (Internal::NodeTree, 194, "pg_node_tree"),
        (Internal::AclItem, 1033, "aclitem"),
        (Internal::Lsn, 3220, "pg_lsn"),
        (Internal::AnyArray, 2277, "anyarray"),
        (Internal::NDistinct, 3361, "pg_ndistinct"),
        (Internal::Dependencies, 3402, "pg_dependencies"),
        (Internal::McvList, 5017, "pg_mcv_list"),
    ];

    /// Returns the object id of the type.
    pub const fn oid(self) -> u32 {
        Internal::ALL[self as usize].1
    }

    /// Returns the name of the type.
    pub const fn name(self) -> &'static str {
        Internal::ALL[self as usize].2
    }

    const fn of_oid(oid: u32) -> Option<Internal> {
        let mut at = 0;
        while at < Internal::ALL.len() {
            if Internal::ALL[at].1 == oid {
                return Some(Internal::ALL[at].0);
            }
            at += 1;
        }
        None
    }
}

/// The length of a `name`, in bytes: PostgreSQL's.
pub(crate) const NAME_LENGTH: usize = 63;

/// The type of an array's elements. An array of arrays is an array of more dimensions, so no
/// element is an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    oid: u32,
    modifier: i32,
    /// The type, if it is one of the database.
    of: Option<UserType>,
}

impl Element {
    /// Returns the type.
    pub const fn ty(self) -> Type {
        match (self.of, Type::with_modifier(self.oid, self.modifier)) {
            (Some(of), _) => of.ty(),
            (None, Some(ty)) => ty,
            (None, None) => Type::Text,
        }
    }

    /// Returns the object id of arrays of it, and their name.
    const fn array(self) -> (u32, &'static str) {
        match self.of {
            Some(of) => (of.array_id(), of.shown_array()),
            None => array_of(self.oid),
        }
    }
}

/// The object id of `hstore`: one of those that PostgreSQL keeps free for experiments.
const HSTORE: u32 = 8000;

/// The types that arrays have as elements: object id, the array's object id, and its name.
pub(crate) const ARRAYS: [(u32, u32, &str); 42] = [
    (16, 1000, "boolean[]"),
    (17, 1001, "bytea[]"),
    (18, 1002, "\"char\"[]"),
    (19, 1003, "name[]"),
    (20, 1016, "bigint[]"),
    (21, 1005, "smallint[]"),
    (23, 1007, "integer[]"),
    (24, 1008, "regproc[]"),
    (25, 1009, "text[]"),
    (26, 1028, "oid[]"),
    (28, 1011, "xid[]"),
    (114, 199, "json[]"),
    (650, 651, "cidr[]"),
    (700, 1021, "real[]"),
    (701, 1022, "double precision[]"),
    (869, 1041, "inet[]"),
    (1033, 1034, "aclitem[]"),
    (1042, 1014, "character[]"),
    (1043, 1015, "character varying[]"),
    (1082, 1182, "date[]"),
    (1083, 1183, "time without time zone[]"),
    (1114, 1115, "timestamp without time zone[]"),
    (1184, 1185, "timestamp with time zone[]"),
    (1186, 1187, "interval[]"),
    (1266, 1270, "time with time zone[]"),
    (1560, 1561, "bit[]"),
    (1562, 1563, "bit varying[]"),
    (1700, 1231, "numeric[]"),
    (2202, 2207, "regprocedure[]"),
    (2203, 2208, "regoper[]"),
    (2204, 2209, "regoperator[]"),
    (2205, 2210, "regclass[]"),
    (2206, 2211, "regtype[]"),
    (2249, 2287, "record[]"),
    (2950, 2951, "uuid[]"),
    (3220, 3221, "pg_lsn[]"),
    (3802, 3807, "jsonb[]"),
    (4072, 4073, "jsonpath[]"),
    (4089, 4090, "regnamespace[]"),
    (4096, 4097, "regrole[]"),
    (4191, 4192, "regcollation[]"),
    (HSTORE, HSTORE + 1, "hstore[]"),
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
            Type::OidVector => Type::Oid.array(),
            ty => {
                let (oid, modifier) = (ty.oid(), ty.modifier());
                Type::Array(Element { oid, modifier, of: ty.user_type() })
            }
        }
    }

    /// Returns the type of an array's elements; `None` if it is no array.
    pub const fn element(self) -> Option<Type> {
        match self {
            Type::Array(element) => Some(element.ty()),
            Type::Int2Vector => Some(Type::Int2),
            Type::OidVector => Some(Type::Oid),
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
            Type::Float4 => 700,
            Type::Float8 => 701,
            Type::Char(_) => 1042,
            Type::Varchar(_) => 1043,
            Type::Name => 19,
            Type::ByteChar => 18,
            Type::Date => 1082,
            Type::Time => 1083,
            Type::TimeTz => 1266,
            Type::Timestamp => 1114,
            Type::TimestampTz => 1184,
            Type::Interval => 1186,
            Type::Rounded(rounded) => rounded.oid(),
            Type::Numeric(_) => 1700,
            Type::Uuid => 2950,
            Type::Jsonb => 3802,
            Type::JsonPath => 4072,
            Type::Hstore => HSTORE,
            Type::Array(element) => element.array().0,
            Type::Enum(ty) => ty.id(),
            Type::Bit(_) => 1560,
            Type::Varbit(_) => 1562,
            Type::Int2Vector => 22,
            Type::OidVector => 30,
            Type::Oid => 26,
            Type::Xid => 28,
            Type::Internal(kind) => kind.oid(),
            Type::Void => 2278,
            Type::Record => 2249,
            Type::Composite(ty) => ty.id(),
            Type::Base(ty) => ty.id(),
            Type::Object(kind) => kind.oid(),
        }
    }

    /// Returns the type of an object id; `None` for unknown ones, for those of the database, and
    /// for 0 and 705 (not specified).
    pub const fn from_oid(oid: u32) -> Option<Type> {
        Some(match oid {
            16 => Type::Bool,
            17 => Type::Bytea,
            20 => Type::Int8,
            21 => Type::Int2,
            23 => Type::Int4,
            25 => Type::Text,
            18 => Type::ByteChar,
            19 => Type::Name,
            22 => Type::Int2Vector,
            26 => Type::Oid,
            28 => Type::Xid,
            30 => Type::OidVector,
            700 => Type::Float4,
            701 => Type::Float8,
            1042 => Type::Char(0),
            1043 => Type::Varchar(None),
            1082 => Type::Date,
            1083 => Type::Time,
            1266 => Type::TimeTz,
            1114 => Type::Timestamp,
            1184 => Type::TimestampTz,
            1186 => Type::Interval,
            1700 => Type::Numeric(None),
            2249 => Type::Record,
            2278 => Type::Void,
            2950 => Type::Uuid,
            114 => Type::Json,
            650 => Type::Cidr,
            869 => Type::Inet,
            3802 => Type::Jsonb,
            4072 => Type::JsonPath,
            HSTORE => Type::Hstore,
            1560 => Type::Bit(None),
            1562 => Type::Varbit(None),
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
                return match (Object::of_oid(oid), Internal::of_oid(oid)) {
                    (Some(kind), _) => Some(Type::Object(kind)),
                    (None, Some(kind)) => Some(Type::Internal(kind)),
                    (None, None) => None,
                };
            }
        })
    }

    /// Returns the type of an object id and a modifier.
    pub const fn with_modifier(oid: u32, modifier: i32) -> Option<Type> {
        if let Some(ty) = Type::from_oid(oid)
            && let Some(rounded) = Rounded::of(ty, modifier)
        {
            return Some(Type::Rounded(rounded));
        }
        Some(match (Type::from_oid(oid), modifier) {
            (None, _) => return None,
            (Some(Type::Bit(_)), n @ 1..) => Type::Bit(Some(n as u32)),
            (Some(Type::Varbit(_)), n @ 1..) => Type::Varbit(Some(n as u32)),
            (Some(Type::Array(element)), n @ 0..) => {
                Type::Array(Element { modifier: n, ..element })
            }
            (Some(ty), ..4) => ty,
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
            Type::Float4 => "real",
            Type::Float8 => "double precision",
            Type::Numeric(_) => "numeric",
            Type::Text => "text",
            Type::Varchar(_) => "character varying",
            Type::Char(_) => "character",
            Type::Name => "name",
            Type::ByteChar => "\"char\"",
            Type::Bytea => "bytea",
            Type::Uuid => "uuid",
            Type::Date => "date",
            Type::Time => "time without time zone",
            Type::TimeTz => "time with time zone",
            Type::Timestamp => "timestamp without time zone",
            Type::TimestampTz => "timestamp with time zone",
            Type::Interval => "interval",
            Type::Rounded(rounded) => rounded.plain().name(),
            Type::Inet => "inet",
            Type::Cidr => "cidr",
            Type::Json => "json",
            Type::Jsonb => "jsonb",
            Type::JsonPath => "jsonpath",
            Type::Hstore => "hstore",
            Type::Array(element) => element.array().1,
            Type::Enum(ty) => ty.shown(),
            Type::Bit(_) => "bit",
            Type::Varbit(_) => "bit varying",
            Type::Int2Vector => "int2vector",
            Type::OidVector => "oidvector",
            Type::Oid => "oid",
            Type::Xid => "xid",
            Type::Internal(kind) => kind.name(),
            Type::Void => "void",
            Type::Record => "record",
            Type::Composite(ty) => ty.shown(),
            Type::Base(ty) => ty.shown(),
            Type::Object(kind) => kind.name(),
        }
    }

    /// Returns the size on the wire in bytes, -1 if it varies: `typlen`.
    pub const fn length(self) -> i16 {
        match self {
            Type::Bool | Type::ByteChar => 1,
            Type::Int2 => 2,
            Type::Int4 | Type::Date | Type::Object(_) | Type::Enum(_) | Type::Void => 4,
            Type::Float4 | Type::Oid | Type::Xid => 4,
            Type::Int8 | Type::Float8 | Type::Time | Type::Timestamp | Type::TimestampTz => 8,
            Type::Internal(Internal::Lsn) => 8,
            Type::TimeTz => 12,
            Type::Internal(Internal::AclItem) => 12,
            Type::Uuid | Type::Interval => 16,
            Type::Rounded(rounded) => rounded.plain().length(),
            Type::Name => NAME_LENGTH as i16 + 1,
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
            Type::Rounded(rounded) => rounded.modifier(),
            Type::Bit(Some(n)) | Type::Varbit(Some(n)) => n as i32,
            Type::Array(element) => element.modifier,
            _ => -1,
        }
    }

    /// Returns a type of times without its modifier, and others as they are.
    pub const fn plain(self) -> Type {
        match self {
            Type::Rounded(rounded) => rounded.plain(),
            other => other,
        }
    }

    /// True if it is a type of times with a modifier, or an array of such.
    pub(crate) const fn is_rounded(self) -> bool {
        match self {
            Type::Array(element) => matches!(element.ty(), Type::Rounded(_)),
            other => matches!(other, Type::Rounded(_)),
        }
    }

    /// Returns the enum type that it is, or that its elements have.
    pub const fn enumeration(self) -> Option<Enum> {
        match self {
            Type::Enum(of) => Some(of),
            Type::Array(Element { of: Some(UserType::Enum(of)), .. }) => Some(of),
            _ => None,
        }
    }

    /// Returns the composite type that it is, or that its elements have.
    pub(crate) const fn composite(self) -> Option<Composite> {
        match self.user_type() {
            Some(UserType::Composite(of)) => Some(of),
            _ => None,
        }
    }

    /// Returns the type of the database that it is, or that its elements have.
    pub(crate) const fn user_type(self) -> Option<UserType> {
        match self {
            Type::Enum(of) => Some(UserType::Enum(of)),
            Type::Composite(of) => Some(UserType::Composite(of)),
            Type::Base(of) => Some(UserType::Base(of)),
            Type::Array(element) => element.of,
            _ => None,
        }
    }

    /// Adds the types of the database that its values have, each once: the types of fields, too.
    pub(crate) fn each_user_type(self, all: &mut Vec<UserType>) {
        let Some(of) = self.user_type().filter(|of| !all.contains(of)) else { return };
        all.push(of);
        if let UserType::Composite(of) = of {
            of.fields().iter().for_each(|field| field.ty.each_user_type(all));
        }
    }

    /// True if a test holds for it, or for the type of its elements or of a field, however deep.
    pub(crate) fn has_part(self, test: &impl Fn(Type) -> bool) -> bool {
        match self.element().unwrap_or(self) {
            Type::Composite(of) => of.fields().iter().any(|field| field.ty.has_part(test)),
            part => test(part.plain()),
        }
    }

    /// Returns it with another version of a type of the database.
    pub(crate) fn with_version(self, new: UserType) -> Type {
        match self {
            Type::Array(Element { of: Some(old), .. }) => old.ty().with_version(new).array(),
            Type::Enum(old) if UserType::Enum(old) == new => new.ty(),
            Type::Base(old) if UserType::Base(old) == new => new.ty(),
            Type::Composite(old) if UserType::Composite(old) == new => new.ty(),
            Type::Composite(old) => Type::Composite(old.with_version(new)),
            other => other,
        }
    }

    /// True for rows as values.
    pub const fn is_row(self) -> bool {
        matches!(self, Type::Record | Type::Composite(_))
    }

    /// True for `record` and arrays of it, which no table stores.
    pub const fn is_anonymous(self) -> bool {
        match self {
            Type::Record => true,
            Type::Array(element) => element.oid == Type::Record.oid(),
            _ => false,
        }
    }

    /// True for the row type of a table, and arrays of it.
    pub const fn is_row_of_table(self) -> bool {
        match self.composite() {
            Some(of) => of.is_of_table(),
            None => false,
        }
    }

    /// True if no table of a user stores its values.
    pub const fn is_of_system(self) -> bool {
        match self {
            Type::Array(element) => element.ty().is_of_system(),
            Type::Int2Vector | Type::OidVector | Type::Internal(_) => true,
            Type::Object(_) | Type::Xid | Type::Void => true,
            _ => false,
        }
    }

    /// True if it is text of any kind.
    pub const fn is_text(self) -> bool {
        matches!(self, Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Name)
    }

    /// True if its values are equal or not, and have an order: those of `json` and
    /// `jsonpath` have neither.
    pub const fn has_order(self) -> bool {
        match self {
            // PostgreSQL compares such for equality alone.
            Type::Internal(Internal::AclItem) => true,
            Type::Json | Type::JsonPath | Type::Void | Type::Internal(_) => false,
            Type::Composite(ty) => ty.has_order(),
            Type::Array(element) => element.ty().has_order(),
            _ => true,
        }
    }

    /// True if it is a whole number.
    pub const fn is_integer(self) -> bool {
        matches!(self, Type::Int2 | Type::Int4 | Type::Int8)
    }

    /// True if its values are ids of objects.
    pub const fn is_oid(self) -> bool {
        matches!(self, Type::Oid | Type::Object(_))
    }

    /// True if arithmetic is defined on it.
    pub const fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Type::Float4 | Type::Float8 | Type::Numeric(_))
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
            Type::Rounded(rounded) => rounded.plain(),
            Type::Bit(_) => Type::Bit(None),
            Type::Varbit(_) => Type::Varbit(None),
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
            Type::Bit(Some(n)) => write!(f, "bit({n})"),
            Type::Varbit(Some(n)) => write!(f, "bit varying({n})"),
            Type::Numeric(Some((precision, scale))) => write!(f, "numeric({precision},{scale})"),
            Type::Rounded(rounded) => write!(f, "{rounded}"),
            Type::Array(element) => write!(f, "{}[]", element.ty()),
            other => f.write_str(other.name()),
        }
    }
}
