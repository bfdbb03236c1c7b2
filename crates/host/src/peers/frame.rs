//! Frames on a connection: one after the other, each with its length and a checksum.
//!
//! ```text
//!   length:u32 crc:u32 payload      integers little-endian
//! ```

/// Bytes of the header before each payload.
pub(super) const HEADER_BYTES: usize = 8;

/// Appends a frame.
pub(super) fn append(bytes: &mut Vec<u8>, payload: &[u8]) {
    let length =
        u32::try_from(payload.len()).expect("invariant: a posted frame is within the limit");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    bytes.extend_from_slice(payload);
}

/// Returns the first complete frame of these bytes, if it has arrived.
pub(super) fn first(bytes: &[u8], limit: usize) -> Result<Option<&[u8]>, String> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let crc = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if length > limit {
        return Err(format!("a frame of {length} bytes is over the limit of {limit}"));
    }
    match rest.get(..length) {
        Some(payload) if crc32fast::hash(payload) != crc => Err("a frame is damaged".into()),
        whole => Ok(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_in_any_bytes_without_a_panic() {
        assert_eq!(first(&[], 10), Ok(None));
        assert_eq!(first(&[5, 0, 0, 0, 1, 2, 3], 10), Ok(None));
        assert!(first(&[0xff; 8], 10).is_err());
        assert!(first(&[1, 0, 0, 0, 9, 9, 9, 9, 5], 10).is_err());
        assert_eq!(first(&[0; 8], 10), Ok(Some(&[][..])));
    }
}
