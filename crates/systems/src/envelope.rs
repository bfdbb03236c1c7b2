//! The header of frames between nodes and of records in the log.
//!
//! ```text
//!   frame:   format:u8  kind:u8  from  to    message       (CBOR from `from` on)
//!   record:  format:u8  kind:u8  record                    (the log itself keeps its address)
//! ```
//!
//! The kind names the sender's protocol or service. A reader that does not know the format, or
//! expects another kind, reports an error and drops the frame. A frame for a database that is not
//! open here is dropped silently.

use meridian_machine::Address;
use minicbor::{Decode, Encode};

/// The format of envelopes that this program writes.
const FORMAT: u8 = 1;

/// The sender: a protocol, which declares its kind ([`Protocol`](crate::Protocol)), or a service of
/// nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u8);

impl Kind {
    /// Transfers of whole shards between nodes.
    pub const TRANSFER: Kind = Kind(2);
    /// Time requests between nodes.
    pub const TIME: Kind = Kind(3);
    // 4 stood for requests for timestamps outside of databases. No node sends them.
}

/// Encodes a message between machines as a frame, with its sender and receiver.
pub fn write_frame<M: Encode<()>>(kind: Kind, from: Address, to: Address, message: &M) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ADDRESSES_BYTES + 128);
    write_addresses(&mut bytes, kind, from, to);
    minicbor::encode(message, &mut bytes).expect(WRITES);
    bytes
}

/// How many bytes the addresses of a frame take, in most cases, at most.
const ADDRESSES_BYTES: usize = 48;
const WRITES: &str = "invariant: writing to memory cannot fail";

fn write_addresses(bytes: &mut Vec<u8>, kind: Kind, from: Address, to: Address) {
    bytes.extend([FORMAT, kind.0]);
    minicbor::encode(from, &mut *bytes).expect(WRITES);
    minicbor::encode(to, bytes).expect(WRITES);
}

/// A message that is encoded once and sent to several machines.
#[derive(Debug)]
pub struct Encoded(Vec<u8>);

impl Encoded {
    /// Encodes a message.
    pub fn of<M: Encode<()>>(message: &M) -> Encoded {
        let mut bytes = Vec::with_capacity(128);
        minicbor::encode(message, &mut bytes).expect(WRITES);
        Encoded(bytes)
    }

    /// The message as a frame, with its sender and its receiver.
    pub fn frame(&self, kind: Kind, from: Address, to: Address) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ADDRESSES_BYTES + self.0.len());
        write_addresses(&mut bytes, kind, from, to);
        bytes.extend_from_slice(&self.0);
        bytes
    }
}

/// A frame whose addresses are decoded and whose message is not.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'b> {
    /// The sender.
    pub from: Address,
    /// The receiver.
    pub to: Address,
    kind: u8,
    message: &'b [u8],
}

impl<'b> Frame<'b> {
    /// Reads the addresses of a frame, whatever its kind.
    pub fn open(bytes: &'b [u8]) -> Result<Frame<'b>, String> {
        let (kind, body) = kind_of(bytes)?;
        let mut decoder = minicbor::Decoder::new(body);
        let mut read = || Ok((decoder.decode()?, decoder.decode()?));
        let addresses: Result<_, minicbor::decode::Error> = read();
        let (from, to) =
            addresses.map_err(|error| format!("a frame's addresses cannot be read: {error}"))?;
        Ok(Frame { from, to, kind, message: &body[decoder.position()..] })
    }

    /// Decodes the message, which must be of this kind.
    pub fn message<M: Decode<'b, ()>>(&self, kind: Kind) -> Result<M, String> {
        if self.kind != kind.0 {
            let wanted = kind.0;
            return Err(format!(
                "a frame of kind {} is for a database whose frames are of kind {wanted}",
                self.kind
            ));
        }
        minicbor::decode(self.message).map_err(|error| format!("a message cannot be read: {error}"))
    }
}

/// Decodes a frame: the inverse of [`write_frame`].
pub fn read_frame<'b, M: Decode<'b, ()>>(
    kind: Kind,
    bytes: &'b [u8],
) -> Result<(Address, Address, M), String> {
    let frame = Frame::open(bytes)?;
    Ok((frame.from, frame.to, frame.message(kind)?))
}

/// Encodes a record for the log, or a message between hosts, of a kind.
pub fn write<T: Encode<()>>(kind: Kind, what: &T) -> Vec<u8> {
    let mut bytes = vec![FORMAT, kind.0];
    minicbor::encode(what, &mut bytes).expect("invariant: writing to memory cannot fail");
    bytes
}

/// Decodes a record: the inverse of [`write()`].
pub fn read<'b, T: Decode<'b, ()>>(kind: Kind, bytes: &'b [u8]) -> Result<T, String> {
    minicbor::decode(body(kind, bytes)?).map_err(|error| format!("it cannot be read: {error}"))
}

/// True if these bytes have a kind.
pub fn is(kind: Kind, bytes: &[u8]) -> bool {
    matches!(bytes, [FORMAT, of, ..] if *of == kind.0)
}

fn body(wanted: Kind, bytes: &[u8]) -> Result<&[u8], String> {
    match kind_of(bytes)? {
        (kind, body) if kind == wanted.0 => Ok(body),
        (kind, _) => Err(format!("kind {kind} is not known here")),
    }
}

/// Returns the number of the kind, and the bytes that follow it.
fn kind_of(bytes: &[u8]) -> Result<(u8, &[u8]), String> {
    match bytes {
        [FORMAT, kind, body @ ..] => Ok((*kind, body)),
        [FORMAT] => Err("it ends before its kind".into()),
        [format, ..] => Err(format!("format {format} is not known here, only {FORMAT}")),
        [] => Err("nothing in it".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::{DatabaseId, Incarnation, NodeId, Role, ShardId};

    const ONE: Kind = Kind(1);
    const OTHER: Kind = Kind(5);

    #[test]
    fn envelopes_read_back_and_garbage_is_an_error() {
        let from = Address::replica(NodeId(1), DatabaseId(2), ShardId(3));
        let to = Address { incarnation: Incarnation(4), role: Role::Coordinator(5), ..from };
        let frame = write_frame(ONE, from, to, &"hello".to_string());
        assert_eq!(read_frame::<String>(ONE, &frame), Ok((from, to, "hello".to_string())));
        assert_eq!(Encoded::of(&"hello").frame(ONE, from, to), frame);
        assert_eq!(read::<u64>(OTHER, &write(OTHER, &77u64)), Ok(77));
        assert!(read_frame::<String>(OTHER, &frame).is_err() && !is(OTHER, &frame));
        let unknown = [&[FORMAT, 9], &frame[2..]].concat();
        let opened = Frame::open(&unknown).expect("addresses are read whatever the kind");
        assert_eq!((opened.from, opened.to), (from, to));
        let why = opened.message::<String>(ONE).unwrap_err();
        assert_eq!(why, "a frame of kind 9 is for a database whose frames are of kind 1");
        for cut in 0..frame.len() {
            assert!(read_frame::<String>(ONE, &frame[..cut]).is_err());
        }
        for bad in [&[2, 1, 0][..], &[1, 9, 0], &[0xff; 20], &[1, 1, 0xff, 0xff]] {
            assert!(read_frame::<String>(ONE, bad).is_err());
            assert!(read::<u64>(ONE, bad).is_err());
        }
    }
}
