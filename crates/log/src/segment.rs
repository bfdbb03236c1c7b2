//! The layout of a segment file.

use crate::rules;
use crate::{File, MachineKey};
use meridian_machine::planted::broken;
use std::io;
use std::sync::Arc;

/// The format that this version writes. It reads no newer one.
pub(crate) const FORMAT: u32 = 2;
const MAGIC: &[u8; 8] = b"MERIDLOG";
/// The offset of the first record.
pub(crate) const FIRST: u64 = 32;
/// Bytes of a record's header.
pub(crate) const HEADER: usize = 32;
/// Records begin at multiples of this.
const ALIGN: u64 = 8;
/// The key of a seal, which ends a segment.
pub(crate) const SEAL: MachineKey = MachineKey { database: u32::MAX, shard: u32::MAX };

/// Returns the bytes that a record takes.
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

/// Returns the name of a released segment's file that waits for reuse.
pub(crate) fn spare_name(number: u64) -> String {
    format!("spare-{number:08}")
}

/// Returns the name of a file that is allocated for a future segment.
pub(crate) fn prepared_name(number: u64) -> String {
    format!("spare-for-{number:08}")
}

/// Returns the name of the file to which a segment is rewritten. After a crash the file is a spare.
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

/// Appends a record to a buffer that will be written at `offset - buffer.len()` of the segment.
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

/// A header whose checksum matches.
pub(crate) struct Header {
    pub key: MachineKey,
    pub synced: u64,
    length: usize,
    payload_checksum: u32,
}

/// Returns the header at an offset, if its checksum matches.
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

/// Returns the record at an offset if its checksums match: its header, its payload, and the offset
/// of the next one. `last` is true for the newest segment, whose end may be torn.
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

/// True if a header beyond `offset` states that the log was synced beyond `offset`: then the bytes
/// at `offset` were acknowledged.
///
/// In torn bytes and in the old content of a reused file, four million places are checked. A 32-bit
/// checksum matches one of them by chance about once in a thousand segments. Therefore the header
/// must also be plausible: it cannot state a sync beyond itself.
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

/// Writes a segment's preamble. `oldest` is the oldest segment that is needed while this one is the
/// newest: earlier ones may be missing, it and later ones may not.
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

/// The content of a segment's preamble.
pub(crate) enum Preamble {
    /// The segment has this number and needs the segments from `oldest` on. In format 1, `oldest`
    /// is 0: unknown.
    Begun { number: u64, oldest: u64 },
    /// A newer version of Meridian wrote the segment.
    Newer(u32),
    /// The segment was never started, or its checksums do not match.
    Unreadable,
}

pub(crate) fn preamble(bytes: &[u8]) -> Preamble {
    // The first checksum is at the same place in every format, so that a newer format is
    // recognised.
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
        assert!(!vouched(512), "the header states no sync beyond the offset");
        // Bytes whose 32-bit checksum matches by chance.
        assert!(!vouched(1032) && !vouched(521) && !vouched(50_385_120_342_835_200));
    }
}
