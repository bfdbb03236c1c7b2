//! What frames between nodes and records in the log begin with.
//!
//! ```text
//!   frame:   format:u8  kind:u8  from  to    message         (CBOR from `from` on)
//!   record:  format:u8  kind:u8  record                    (the log itself keeps whose it is)
//! ```
//!
//! The kind names who speaks; a reader who does not know the format or the kind says so and drops it.

use meridian_machine::Address;
use minicbor::{Decode, Encode};

/// The format of envelopes that this program writes.
const FORMAT: u8 = 1;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The spanner recipe's machines.
    Spanner = 1,
    /// Hosts that copy whole shards.
    Transfer = 2,
    /// Hosts that ask each other what time it is.
    Time = 3,
    /// Hosts that ask an oracle or an authority for timestamps.
    Oracle = 4,
    /// The tapir recipe's machines.
    Tapir = 5,
    /// The qwstore recipe's machines.
    QwStore = 6,
}

/// A message between machines, with who it is from and for.
pub fn write_frame<M: Encode<()>>(kind: Kind, from: Address, to: Address, message: &M) -> Vec<u8> {
    let mut bytes = vec![FORMAT, kind as u8];
    let wrote = minicbor::encode(from, &mut bytes)
        .and_then(|()| minicbor::encode(to, &mut bytes))
        .and_then(|()| minicbor::encode(message, &mut bytes));
    wrote.expect("invariant: writing to memory cannot fail");
    bytes
}

/// The inverse of [`write_frame`].
pub fn read_frame<'b, M: Decode<'b, ()>>(kind: Kind, bytes: &'b [u8]) -> Result<(Address, Address, M), String> {
    let mut decoder = minicbor::Decoder::new(body(kind, bytes)?);
    let mut read = || Ok((decoder.decode()?, decoder.decode()?, decoder.decode()?));
    read().map_err(|error: minicbor::decode::Error| format!("a message cannot be read: {error}"))
}

/// A record for the log, or something that hosts say, of a kind.
pub fn write<T: Encode<()>>(kind: Kind, what: &T) -> Vec<u8> {
    let mut bytes = vec![FORMAT, kind as u8];
    minicbor::encode(what, &mut bytes).expect("invariant: writing to memory cannot fail");
    bytes
}

/// The inverse of [`write()`].
pub fn read<'b, T: Decode<'b, ()>>(kind: Kind, bytes: &'b [u8]) -> Result<T, String> {
    minicbor::decode(body(kind, bytes)?).map_err(|error| format!("it cannot be read: {error}"))
}

/// Whether these bytes say that they are of a kind.
pub fn is(kind: Kind, bytes: &[u8]) -> bool {
    body(kind, bytes).is_ok()
}

fn body(wanted: Kind, bytes: &[u8]) -> Result<&[u8], String> {
    match bytes {
        [FORMAT, kind, body @ ..] if *kind == wanted as u8 => Ok(body),
        [FORMAT, kind, ..] => Err(format!("kind {kind} is not known here")),
        [format, ..] => Err(format!("format {format} is not known here, only {FORMAT}")),
        [] => Err("nothing in it".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::{DatabaseId, Incarnation, NodeId, Role, ShardId};

    #[test]
    fn envelopes_read_back_and_garbage_is_an_error() {
        let from = Address::replica(NodeId(1), DatabaseId(2), ShardId(3));
        let to = Address { incarnation: Incarnation(4), role: Role::Coordinator(5), ..from };
        let frame = write_frame(Kind::Spanner, from, to, &"hello".to_string());
        assert_eq!(read_frame::<String>(Kind::Spanner, &frame), Ok((from, to, "hello".to_string())));
        assert_eq!(read::<u64>(Kind::Tapir, &write(Kind::Tapir, &77u64)), Ok(77));
        assert!(read_frame::<String>(Kind::Tapir, &frame).is_err() && !is(Kind::Tapir, &frame));
        for cut in 0..frame.len() {
            assert!(read_frame::<String>(Kind::Spanner, &frame[..cut]).is_err());
        }
        for bad in [&[2, 1, 0][..], &[1, 9, 0], &[0xff; 20], &[1, 1, 0xff, 0xff]] {
            assert!(read_frame::<String>(Kind::Spanner, bad).is_err());
            assert!(read::<u64>(Kind::Spanner, bad).is_err());
        }
    }
}
