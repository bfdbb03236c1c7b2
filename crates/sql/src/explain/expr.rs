//! Expressions as SQL, with as many parentheses as PostgreSQL shows.

use crate::aggregate::Aggregate;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::expr::{Arith, Compare, Expr, Quantifier};
use crate::types::Type;

/// Names columns and parameters, and has the zone in which times are shown.
pub(super) struct Names<'a> {
    pub(super) column: &'a dyn Fn(usize) -> String,
    pub(super) param: &'a dyn Fn(usize) -> String,
    pub(super) zone: &'a Zone,
}

/// Returns an expression as SQL.
pub(super) fn sql(expr: &Expr, names: &Names<'_>) -> String {
    let of = |expr: &Expr| sql(expr, names);
    let all = |exprs: &[Expr]| exprs.iter().map(of).collect::<Vec<_>>();
    let not = |negated: bool| if negated { "NOT " } else { "" };
    match expr {
        Expr::Const(datum) => constant(datum, names.zone),
        Expr::Param(at) => (names.param)(*at),
        Expr::Column(at) => (names.column)(*at),
        Expr::Arith(op, _, sides) => {
            let op = match op {
                Arith::Add => '+',
                Arith::Sub => '-',
                Arith::Mul => '*',
                Arith::Div => '/',
                Arith::Mod => '%',
            };
            format!("({} {op} {})", of(&sides.0), of(&sides.1))
        }
        Expr::Compare(op, sides) => {
            format!("({} {} {})", of(&sides.0), operator(*op), of(&sides.1))
        }
        Expr::Distinct(sides, negated) => {
            format!("({} IS {}DISTINCT FROM {})", of(&sides.0), not(*negated), of(&sides.1))
        }
        Expr::And(parts) => format!("({})", all(parts).join(" AND ")),
        Expr::Or(parts) => format!("({})", all(parts).join(" OR ")),
        Expr::Not(inner) => format!("(NOT {})", of(inner)),
        Expr::IsNull(inner, negated) => format!("({} IS {}NULL)", of(inner), not(*negated)),
        Expr::IsBool(inner, value, negated) => {
            let value = if *value { "TRUE" } else { "FALSE" };
            format!("({} IS {}{value})", of(inner), not(*negated))
        }
        Expr::In(needle, list, negated) => {
            format!("({} {}IN ({}))", of(needle), not(*negated), all(list).join(", "))
        }
        Expr::Each(op, quantifier, sides) => {
            let quantifier = match quantifier {
                Quantifier::Any => "ANY",
                Quantifier::All => "ALL",
            };
            format!("({} {} {quantifier} ({}))", of(&sides.0), operator(*op), of(&sides.1))
        }
        Expr::Array(parts, _) => format!("ARRAY[{}]", all(parts).join(", ")),
        Expr::Row(parts, _) => format!("ROW({})", all(parts).join(", ")),
        Expr::Field(inner, at) => match &**inner {
            Expr::Row(_, shape) => format!("({}).{}", of(inner), shape.fields()[*at].name),
            _ => format!("({}).{}", of(inner), at + 1),
        },
        Expr::Like { text, pattern, escape: _, negated, fold } => {
            let like = if *fold { "ILIKE" } else { "LIKE" };
            format!("({} {}{like} {})", of(text), not(*negated), of(pattern))
        }
        Expr::Case { branches, otherwise } => {
            let mut out = "CASE".to_owned();
            for (condition, result) in branches {
                out += &format!(" WHEN {} THEN {}", of(condition), of(result));
            }
            out + &format!(" ELSE {} END", of(otherwise))
        }
        Expr::Coalesce(args) => format!("COALESCE({})", all(args).join(", ")),
        Expr::Cast(inner, ty, _) => format!("({})::{}", of(inner), ty.name()),
        Expr::Domain(inner, domain) => format!("({})::{}", of(inner), domain.shown()),
        Expr::Call(function, args) => {
            let is_name = |name: &str| name.starts_with(|c: char| c.is_alphabetic() || c == '_');
            match args.as_slice() {
                [left, right] if !is_name(function.name) => {
                    format!("({} {} {})", of(left), function.name, of(right))
                }
                [only] if !is_name(function.name) => format!("({} {})", function.name, of(only)),
                args => format!("{}({})", function.name, all(args).join(", ")),
            }
        }
        Expr::Subquery(_) => "(SubPlan)".to_owned(),
    }
}

/// Returns an aggregate as SQL.
pub(super) fn aggregate(aggregate: &Aggregate, names: &Names<'_>) -> String {
    let args: Vec<_> = aggregate.args.iter().map(|arg| sql(arg, names)).collect();
    let args = if args.is_empty() { "*".to_owned() } else { args.join(", ") };
    let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
    let mut out = format!("{}({distinct}{args})", aggregate.function.name);
    if let Some(filter) = &aggregate.filter {
        out += &format!(" FILTER (WHERE {})", sql(filter, names));
    }
    out
}

fn operator(op: Compare) -> &'static str {
    match op {
        Compare::Eq => "=",
        Compare::Ne => "<>",
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Gt => ">",
        Compare::Ge => ">=",
    }
}

fn constant(datum: &Datum, zone: &Zone) -> String {
    let ty = match datum {
        Datum::Null => return "NULL".to_owned(),
        Datum::Bool(value) => return value.to_string(),
        Datum::Int2(value) => return value.to_string(),
        Datum::Int4(value) => return value.to_string(),
        Datum::Int8(value) => return value.to_string(),
        Datum::Float4(_) => Type::Float4,
        Datum::Float8(_) => Type::Float8,
        Datum::Numeric(value) if value.finite().is_some() => return value.to_string(),
        Datum::Numeric(_) => Type::Numeric(None),
        Datum::Text(_) => Type::Text,
        Datum::Bytes(_) => Type::Bytea,
        Datum::Date(_) => Type::Date,
        Datum::Time(_) => Type::Time,
        Datum::TimeTz(_) => Type::TimeTz,
        Datum::Timestamp(_) => Type::Timestamp,
        Datum::TimestampTz(_) => Type::TimestampTz,
        Datum::Interval(_) => Type::Interval,
        Datum::Uuid(_) => Type::Uuid,
        Datum::Network(network) if network.is_cidr() => Type::Cidr,
        Datum::Network(_) => Type::Inet,
        Datum::Json(_) => Type::Json,
        Datum::Jsonb(_) => Type::Jsonb,
        Datum::JsonPath(_) => Type::JsonPath,
        Datum::Hstore(_) => Type::Hstore,
        Datum::Enum(value) => Type::Enum(value.type_of()),
        Datum::Base(value) => Type::Base(value.type_of()),
        Datum::Bits(_) => Type::Bit(None),
        Datum::Oid(_) => Type::Oid,
        Datum::Object(_, name) => return format!("'{name}'"),
        Datum::Array(_) => return "'{…}'".to_owned(),
        Datum::Record(record) => record.shape().ty(),
    };
    let text = datum.to_text_in(ty, zone).unwrap_or_default().replace('\'', "''");
    format!("'{text}'::{}", ty.name())
}
