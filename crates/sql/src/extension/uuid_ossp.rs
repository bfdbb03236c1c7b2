//! `uuid-ossp`: UUIDs of times, of names and of random numbers (RFC 4122).

use super::{Extension, sha1};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Scope;
use crate::function::of::*;
use crate::function::{Function, Param, gen_random_uuid, text_at, wrong_type};
use crate::types::Type;
use md5::Digest as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::{Builder, Uuid};

const UUID: Param = Param::Of(Type::Uuid);

pub(super) static EXTENSION: Extension = Extension {
    name: "uuid-ossp",
    version: "1.1",
    comment: "generate universally unique identifiers (UUIDs)",
    fixed_types: &[],
    functions: &[
        Function::new("uuid_generate_v1", &[], A_UUID, generate_v1).volatile(),
        Function::new("uuid_generate_v1mc", &[], A_UUID, generate_v1mc).volatile(),
        Function::new("uuid_generate_v3", &[UUID, TEXT], A_UUID, generate_v3),
        Function::new("uuid_generate_v4", &[], A_UUID, gen_random_uuid).volatile(),
        Function::new("uuid_generate_v5", &[UUID, TEXT], A_UUID, generate_v5),
        Function::new("uuid_nil", &[], A_UUID, |_, _| Ok(Datum::Uuid(Uuid::nil()))),
        Function::new("uuid_ns_dns", &[], A_UUID, |_, _| namespace(0x10)),
        Function::new("uuid_ns_oid", &[], A_UUID, |_, _| namespace(0x12)),
        Function::new("uuid_ns_url", &[], A_UUID, |_, _| namespace(0x11)),
        Function::new("uuid_ns_x500", &[], A_UUID, |_, _| namespace(0x14)),
    ],
    types: &[],
    refused: &[],
};

/// The ticks of 100 ns from the beginning of the Gregorian calendar to 2000.
const TICKS_BEFORE_2000: u64 = 0x01b2_1dd2_1381_4000 + 946_684_800 * 10_000_000;

/// The least namespace of RFC 4122, appendix C, without its last digits.
const NAMESPACES: u128 = 0x6ba7b800_9dad_11d1_80b4_00c04fd430c8;

fn namespace(number: u128) -> Result<Datum, SqlError> {
    Ok(Datum::Uuid(Uuid::from_u128(NAMESPACES | number << 96)))
}

/// Returns the time in ticks of 100 ns, given the transaction's in microseconds since 2000. No two
/// calls of the process have the same.
fn ticks(now_us: i64) -> u64 {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    let now = TICKS_BEFORE_2000.saturating_add_signed(now_us.saturating_mul(10));
    let after = |latest| now.max(latest + 1);
    match LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(after(latest))) {
        Ok(latest) | Err(latest) => after(latest),
    }
}

/// Returns a node that is no address of a network card: its multicast bit is set (§4.5).
fn random_node() -> [u8; 6] {
    let mut node = [0; 6];
    node.copy_from_slice(&Uuid::new_v4().as_bytes()[..6]);
    node[0] |= 1;
    node
}

/// Returns a UUID of a time in microseconds since 2000.
fn of_time(node: [u8; 6], now_us: i64) -> Uuid {
    /// Random, so that processes on one machine differ.
    static SEQUENCE: LazyLock<u16> = LazyLock::new(|| Uuid::new_v4().as_u128() as u16);
    let ticks = ticks(now_us);
    let (low, middle, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16);
    let [first, second] = SEQUENCE.to_be_bytes();
    let [a, b, c, d, e, f] = node;
    let rest = [first & 0x3f | 0x80, second, a, b, c, d, e, f];
    Uuid::from_fields(low, middle, high & 0x0fff | 0x1000, &rest)
}

fn generate_v1(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    static NODE: LazyLock<[u8; 6]> = LazyLock::new(random_node);
    Ok(Datum::Uuid(of_time(*NODE, scope.now_us)))
}

fn generate_v1mc(_: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    Ok(Datum::Uuid(of_time(random_node(), scope.now_us)))
}

/// Returns a name behind its namespace.
fn name_of(args: &[Datum]) -> Result<Vec<u8>, SqlError> {
    let Some(Datum::Uuid(namespace)) = args.first() else { return Err(wrong_type()) };
    Ok([namespace.as_bytes(), text_at(args, 1)?.as_bytes()].concat())
}

fn generate_v3(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let digest = md5::Md5::digest(name_of(args)?);
    Ok(Datum::Uuid(Builder::from_md5_bytes(digest.into()).into_uuid()))
}

fn generate_v5(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sha1::digest(&name_of(args)?)[..16]);
    Ok(Datum::Uuid(Builder::from_sha1_bytes(bytes).into_uuid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_of_times_differ_and_say_their_version() {
        let all: Vec<Uuid> = (0..1000).map(|_| of_time(random_node(), 0)).collect();
        for uuid in &all {
            assert_eq!(uuid.get_version_num(), 1);
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
            assert_eq!(uuid.as_bytes()[10] & 1, 1, "{uuid}");
        }
        let times: std::collections::BTreeSet<[u8; 8]> =
            all.iter().map(|uuid| uuid.as_bytes()[..8].try_into().expect("eight")).collect();
        assert_eq!(times.len(), all.len());
    }
}
