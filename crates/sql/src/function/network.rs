//! Functions and operators of `inet` and `cidr`.

use super::of::*;
use super::{Function, whole_at, wrong_type};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::network::Network;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abbrev", &[INET], A_TEXT, |args, _| text(args, Network::abbreviated)),
    Function::new("abbrev", &[CIDR], A_TEXT, |args, _| text(args, Network::abbreviated)),
    Function::new("broadcast", &[INET], AN_INET, |args, _| of_one(args, Network::broadcast)),
    Function::new("family", &[INET], AN_INT4, |args, _| Ok(Datum::Int4(at(args, 0)?.family()))),
    Function::new("host", &[INET], A_TEXT, |args, _| text(args, Network::host)),
    Function::new("hostmask", &[INET], AN_INET, |args, _| of_one(args, Network::hostmask)),
    Function::new("inet_merge", &[INET, INET], A_CIDR, |args, _| {
        Ok(Datum::Network(at(args, 0)?.merge(at(args, 1)?)?))
    }),
    Function::new("inet_same_family", &[INET, INET], A_BOOL, |args, _| {
        Ok(Datum::Bool(at(args, 0)?.family() == at(args, 1)?.family()))
    }),
    Function::new("masklen", &[INET], AN_INT4, |args, _| {
        Ok(Datum::Int4(at(args, 0)?.bits().into()))
    }),
    Function::new("netmask", &[INET], AN_INET, |args, _| of_one(args, Network::netmask)),
    Function::new("network", &[INET], A_CIDR, |args, _| of_one(args, Network::network)),
    Function::new("set_masklen", &[INET, INT4], AN_INET, set_length),
    Function::new("set_masklen", &[CIDR, INT4], A_CIDR, set_length),
    Function::new("text", &[INET], A_TEXT, |args, _| text(args, Network::full)),
    Function::new("~", &[INET], AN_INET, |args, _| of_one(args, Network::inverted)),
    Function::new("&", &[INET, INET], AN_INET, |args, _| {
        Ok(Datum::Network(at(args, 0)?.combine(at(args, 1)?, |a, b| a & b, "AND")?))
    }),
    Function::new("|", &[INET, INET], AN_INET, |args, _| {
        Ok(Datum::Network(at(args, 0)?.combine(at(args, 1)?, |a, b| a | b, "OR")?))
    }),
    Function::new("+", &[INET, INT8], AN_INET, |args, _| moved(args, (0, 1), 1)),
    Function::new("+", &[INT8, INET], AN_INET, |args, _| moved(args, (1, 0), 1)),
    Function::new("-", &[INET, INT8], AN_INET, |args, _| moved(args, (0, 1), -1)),
    Function::new("-", &[INET, INET], AN_INT8, |args, _| {
        Ok(Datum::Int8(at(args, 0)?.minus(at(args, 1)?)?))
    }),
    Function::new("<<", &[INET, INET], A_BOOL, |args, _| within(args, (1, 0))),
    Function::new(">>", &[INET, INET], A_BOOL, |args, _| within(args, (0, 1))),
    Function::new("<<=", &[INET, INET], A_BOOL, |args, _| {
        Ok(Datum::Bool(at(args, 1)?.contains(at(args, 0)?)))
    }),
    Function::new(">>=", &[INET, INET], A_BOOL, |args, _| {
        Ok(Datum::Bool(at(args, 0)?.contains(at(args, 1)?)))
    }),
    Function::new("&&", &[INET, INET], A_BOOL, |args, _| {
        let (a, b) = (at(args, 0)?, at(args, 1)?);
        Ok(Datum::Bool(a.contains(b) || b.contains(a)))
    }),
];

fn at(args: &[Datum], at: usize) -> Result<Network, SqlError> {
    match args.get(at) {
        Some(Datum::Network(network)) => Ok(*network),
        _ => Err(wrong_type()),
    }
}

fn text(args: &[Datum], of: fn(Network) -> String) -> Result<Datum, SqlError> {
    Ok(Datum::text(of(at(args, 0)?)))
}

fn of_one(args: &[Datum], of: fn(Network) -> Network) -> Result<Datum, SqlError> {
    Ok(Datum::Network(of(at(args, 0)?)))
}

fn set_length(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Network(at(args, 0)?.with_bits(whole_at(args, 1)?)?))
}

/// Returns an address some steps away; `which` tells the address and the number.
fn moved(args: &[Datum], which: (usize, usize), sign: i128) -> Result<Datum, SqlError> {
    let steps = i128::from(whole_at(args, which.1)?);
    Ok(Datum::Network(at(args, which.0)?.plus(sign * steps)?))
}

/// True if the first network contains the second one, and is wider.
fn within(args: &[Datum], (wide, narrow): (usize, usize)) -> Result<Datum, SqlError> {
    let (wide, narrow) = (at(args, wide)?, at(args, narrow)?);
    Ok(Datum::Bool(wide.contains(narrow) && wide.bits() < narrow.bits()))
}
