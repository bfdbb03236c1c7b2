//! How records lie in a segment file.

use crate::rules;
use crate::{File, MachineKey};
use meridian_machine::planted::broken;
use std::io;
use std::sync::Arc;

/// The format this code writes; it reads no newer one.
pub(crate) const FORMAT: u32 = 2;
const MAGIC: &[u8; 8] = b"MERIDLOG";
/// Where the first record begins.
pub(crate) const FIRST: u64 = 32;
/// A record's header.
pub(crate) const HEADER: usize = 32;
/// Records begin at multiples of this.
const ALIGN: u64 = 8;
/// The machine of a seal: it ends a segment.
pub(crate) const SEAL: MachineKey = MachineKey { database: u32::MAX, shard: u32::MAX };

/// Room that a record takes.
pub(crate) fn footprint(payload: usize) -> u64 {
    (HEADER as u64 + payload as u64).div_ceil(ALIGN) * ALIGN
}

pub(crate) fn name(number: u64) -> String {
    format!("log-{number:08}")
}

pub(crate) fn number(of: &str) -> Option<u64> {
    let number = of.strip_prefix("log-")?.parse().ok()?;
    (name(number) == of && number < u64::MAX).then_some(number)
}

/// The name under which a segment's file waits to be used again.
pub(crate) fn spare_name(number: u64) -> String {
    format!("spare-{number:08}")
}

/// The name under which the file of a segment to come is made.
pub(crate) fn prepared_name(number: u64) -> String {
    format!("spare-for-{number:08}")
}

/// The name under which a segment is written again. A copy that a crash left behind is a spare.
pub(crate) fn copy_name(number: u64) -> String {
    format!("spare-copy-of-{number:08}")
}

pub(crate) fn is_spare(name: &str) -> bool {
    name.starts_with("spare-")
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn header_checksum(segment: u64, offset: u64, rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&segment.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    hasher.update(rest);
    hasher.finalize()
}

/// Appends a record to a buffer that will stand at `offset - buffer.len()` of the segment.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    segment: u64,
    offset: u64,
    synced: u64,
    key: MachineKey,
    payload: &[u8],
) {
    let start = out.len();
    out.resize(start + HEADER, 0);
    let mut fields = [0; HEADER - 4];
    fields[0..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    fields[4..8].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    fields[8..12].copy_from_slice(&key.database.to_le_bytes());
    fields[12..16].copy_from_slice(&key.shard.to_le_bytes());
    fields[16..24].copy_from_slice(&synced.to_le_bytes());
    let checksum = header_checksum(segment, offset, &fields);
    out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    out[start + 4..start + HEADER].copy_from_slice(&fields);
    out.extend_from_slice(payload);
    out.resize(start + footprint(payload.len()) as usize, 0);
}

/// A header that checks.
pub(crate) struct Header {
    pub key: MachineKey,
    pub synced: u64,
    length: usize,
    payload_checksum: u32,
}

/// The header at an offset, if there is one.
fn header_at(bytes: &[u8], segment: u64, offset: u64) -> Option<Header> {
    let header = bytes.get(offset as usize..offset as usize + HEADER)?;
    let fields = &header[4..];
    if word(header, 0) != header_checksum(segment, offset, fields) {
        return None;
    }
    let synced = u64::from(word(fields, 16)) | (u64::from(word(fields, 20)) << 32);
    Some(Header {
        key: MachineKey { database: word(fields, 8), shard: word(fields, 12) },
        synced,
        length: word(fields, 0) as usize,
        payload_checksum: word(fields, 4),
    })
}

/// The record at an offset, if it checks: its header, its payload, where the next begins. `last`:
/// it may have been torn.
pub(crate) fn record_at(
    bytes: &[u8],
    segment: u64,
    offset: u64,
    last: bool,
) -> Option<(Header, &[u8], u64)> {
    let header = header_at(bytes, segment, offset)?;
    let start = offset as usize + HEADER;
    let payload = bytes.get(start..start.checked_add(header.length)?)?;
    let believed = broken(rules::LOG_CHECKSUM) || (last && broken(rules::TORN_TAIL));
    (believed || crc32fast::hash(payload) == header.payload_checksum).then(|| {
        let next = offset + footprint(header.length);
        (header, payload, next)
    })
}

/// Whether any header beyond `offset` says that the log had been synced beyond it: then what stands
/// at `offset` was acknowledged.
///
/// What was torn, and what a file held that is used again, is looked at in four million places:
/// that a checksum of 32 bits fits some of it is to be expected once in a thousand times. So a
/// header must also be one that could stand there: nothing was synced beyond itself.
pub(crate) fn acknowledged(bytes: &[u8], segment: u64, offset: u64) -> bool {
    let mut at = offset + ALIGN;
    while at + HEADER as u64 <= bytes.len() as u64 {
        let possible = |synced: u64| synced <= at && synced.is_multiple_of(ALIGN);
        if header_at(bytes, segment, at)
            .is_some_and(|header| header.synced > offset && possible(header.synced))
        {
            return true;
        }
        at += ALIGN;
    }
    false
}

/// Writes what a segment begins with. `oldest` is the oldest segment that is needed while this one
/// is the newest: those before it may be gone, it and those after it may not.
pub(crate) fn write_preamble(file: &Arc<dyn File>, segment: u64, oldest: u64) -> io::Result<()> {
    let mut preamble = [0; FIRST as usize];
    preamble[..8].copy_from_slice(MAGIC);
    preamble[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    preamble[12..20].copy_from_slice(&segment.to_le_bytes());
    let checksum = crc32fast::hash(&preamble[..20]);
    preamble[20..24].copy_from_slice(&checksum.to_le_bytes());
    let before = u32::try_from(segment - oldest).unwrap_or(u32::MAX);
    preamble[24..28].copy_from_slice(&before.to_le_bytes());
    let checksum = crc32fast::hash(&preamble[..28]);
    preamble[28..32].copy_from_slice(&checksum.to_le_bytes());
    file.write_at(0, &preamble)
}

/// What a segment's preamble says.
pub(crate) enum Preamble {
    /// It was begun with this number, and needs the segments from `oldest` on: in the first format
    /// nobody said.
    Begun { number: u64, oldest: u64 },
    /// It was written by a newer version of Meridian.
    Newer(u32),
    /// It was never begun, or does not check.
    Unreadable,
}

pub(crate) fn preamble(bytes: &[u8]) -> Preamble {
    // The first checksum stands where every format has it, so that a newer one is known as such.
    if bytes.len() < FIRST as usize
        || &bytes[..8] != MAGIC
        || crc32fast::hash(&bytes[..20]) != word(bytes, 20)
    {
        return Preamble::Unreadable;
    }
    let number = u64::from(word(bytes, 12)) | (u64::from(word(bytes, 16)) << 32);
    match word(bytes, 8) {
        1 => Preamble::Begun { number, oldest: 0 },
        FORMAT if crc32fast::hash(&bytes[..28]) == word(bytes, 28) => {
            Preamble::Begun { number, oldest: number.saturating_sub(u64::from(word(bytes, 24))) }
        }
        FORMAT => Preamble::Unreadable,
        newer => Preamble::Newer(newer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_could_not_stand_there_vouches_for_nothing() {
        let key = MachineKey { database: 1, shard: 2 };
        let vouched = |synced| {
            let mut bytes = vec![0; 4096];
            let mut record = Vec::new();
            encode(&mut record, 7, 1024, synced, key, b"what is behind");
            bytes[1024..1024 + record.len()].copy_from_slice(&record);
            acknowledged(&bytes, 7, 512)
        };
        assert!(vouched(520) && vouched(1024));
        assert!(!vouched(512), "it knows of nothing there");
        // Bytes that only look like a header: a checksum of 32 bits fits them by chance.
        assert!(!vouched(1032) && !vouched(521) && !vouched(50_385_120_342_835_200));
    }
}
