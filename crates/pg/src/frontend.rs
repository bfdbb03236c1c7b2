//! The client's messages: parses bytes into messages, with all lengths checked.
//!
//! A message after the startup packet is a tag, a length that includes itself, and a body. A frame
//! is removed from the receive buffer only when it is complete; the buffer grows with the bytes
//! that arrive, and never by an announced length. Inside a frame every count and length is checked
//! against the rest of the frame. An invalid message is [`Malformed`]: the stream cannot be trusted
//! any more, so the connection ends with FATAL 08P01.

use bytes::{Buf, Bytes, BytesMut};
use std::fmt;
use std::str;

/// The longest accepted startup packet, in bytes, as in PostgreSQL.
pub(crate) const STARTUP_LIMIT_BYTES: usize = 10_000;

const PROTOCOL_3_0: u32 = 196_608;
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;

/// Bytes that are no message of the protocol, with the violated rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// The first packet of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// A request for TLS or GSSAPI encryption, which is answered with `N`; the client then sends
    /// another opening packet.
    Encryption,
    /// A request to stop the running statement of another connection.
    Cancel { process: i32, secret: i32 },
    /// The start of a session.
    Startup { minor: u16, parameters: Vec<(String, String)> },
}

/// Removes the opening packet from the buffer; `None` while it is incomplete.
pub(crate) fn opening(buffer: &mut BytesMut) -> Result<Option<Opening>, Malformed> {
    let Some(length) = announced(buffer, 0) else { return Ok(None) };
    if !(8..=STARTUP_LIMIT_BYTES).contains(&length) {
        return malformed(format!("invalid length of startup packet: {length}"));
    }
    if buffer.len() < length {
        return Ok(None);
    }
    let mut packet = Reader::new(buffer.split_to(length).freeze());
    packet.rest.advance(4);
    let code = packet.u32("protocol version")?;
    match code {
        SSL_REQUEST | GSSENC_REQUEST if length == 8 => Ok(Some(Opening::Encryption)),
        CANCEL_REQUEST if length == 16 => Ok(Some(Opening::Cancel {
            process: packet.i32("process id")?,
            secret: packet.i32("secret key")?,
        })),
        _ if code >> 16 == PROTOCOL_3_0 >> 16 => {
            let mut parameters = Vec::new();
            loop {
                let name = packet.text("startup parameter name")?;
                if name.is_empty() {
                    break;
                }
                let value = packet.text("startup parameter value")?;
                parameters.push((name.as_str().to_owned(), value.as_str().to_owned()));
            }
            packet.end("startup packet")?;
            Ok(Some(Opening::Startup { minor: (code & 0xffff) as u16, parameters }))
        }
        _ => malformed(format!(
            "unsupported frontend protocol {}.{}: this server speaks 3.0",
            code >> 16,
            code & 0xffff
        )),
    }
}

/// A message of a running session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frontend {
    /// Runs one or several statements, given as text.
    Query(Text),
    /// Prepares a statement; `types` are the types that the client knows of the parameters, 0 for
    /// the rest.
    Parse { name: Text, query: Text, types: Vec<u32> },
    /// Creates a portal of a statement and values.
    Bind(Bind),
    /// Requests the parameters and columns of a statement or portal.
    Describe(Target),
    /// Runs a portal, for at most this many rows; 0 for all.
    Execute { portal: Text, limit: u32 },
    /// Removes a statement or portal.
    Close(Target),
    /// Requests the responses so far.
    Flush,
    /// Ends a pipeline: after an error, messages up to here are skipped.
    Sync,
    /// A part of the data of COPY FROM STDIN.
    CopyData(Bytes),
    /// The end of the data.
    CopyDone,
    /// Aborts the client's COPY, with a reason.
    CopyFail(Text),
    /// Ends the connection.
    Terminate,
    /// A well-framed message whose text is not UTF-8, which is an error of that statement only.
    NotText { what: &'static str, in_query: bool },
}

/// A statement or a portal, by name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A prepared statement.
    Statement(Text),
    /// A portal.
    Portal(Text),
}

/// The contents of Bind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) portal: Text,
    pub(crate) statement: Text,
    /// The formats of the parameters. None: all text; one: for all; else one per parameter.
    pub(crate) parameter_formats: Vec<i16>,
    pub(crate) parameters: Vec<Option<Bytes>>,
    /// The formats of the columns of the result, as above.
    pub(crate) result_formats: Vec<i16>,
}

/// Checked UTF-8 that shares the receive buffer.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Text(Bytes);

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("invariant: a Text is built from checked UTF-8")
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Removes the next message from the buffer; `None` while it is incomplete.
pub(crate) fn message(
    buffer: &mut BytesMut,
    limit_bytes: usize,
) -> Result<Option<Frontend>, Malformed> {
    let Some(&tag) = buffer.first() else { return Ok(None) };
    if !b"QPBDECHSdcfXpF".contains(&tag) {
        return malformed(format!("invalid frontend message type {tag}"));
    }
    let Some(length) = announced(buffer, 1) else { return Ok(None) };
    if length < 4 {
        return malformed(format!("invalid message length {length}"));
    }
    if length > limit_bytes {
        return malformed(format!(
            "a message of {length} bytes exceeds the limit of {limit_bytes} bytes"
        ));
    }
    if buffer.len() < length + 1 {
        return Ok(None);
    }
    let mut body = Reader::new(buffer.split_to(length + 1).freeze());
    body.rest.advance(5);
    let message = decode(tag, &mut body);
    if let Some(what) = body.not_text {
        return Ok(Some(Frontend::NotText { what, in_query: tag == b'Q' }));
    }
    let message = message?;
    body.end("message")?;
    Ok(Some(message))
}

fn announced(buffer: &[u8], at: usize) -> Option<usize> {
    let bytes = buffer.get(at..at + 4)?;
    // A length with the sign bit becomes enormous here, and exceeds the limit.
    Some(u32::from_be_bytes(bytes.try_into().expect("invariant: four bytes")) as usize)
}

fn decode(tag: u8, body: &mut Reader) -> Result<Frontend, Malformed> {
    Ok(match tag {
        b'Q' => Frontend::Query(body.text("query")?),
        b'P' => {
            let name = body.text("statement name")?;
            let query = body.text("query")?;
            let count = body.count(4, "parameter types")?;
            let types = (0..count).map(|_| body.u32("parameter type")).collect::<Result<_, _>>()?;
            Frontend::Parse { name, query, types }
        }
        b'B' => {
            let portal = body.text("portal name")?;
            let statement = body.text("statement name")?;
            let parameter_formats = body.formats("parameter formats")?;
            let count = body.count(4, "parameters")?;
            let mut parameters = Vec::with_capacity(count);
            for _ in 0..count {
                parameters.push(body.value()?);
            }
            let result_formats = body.formats("result formats")?;
            if parameter_formats.len() > 1 && parameter_formats.len() != parameters.len() {
                return malformed(format!(
                    "bind message has {} parameter formats but {} parameters",
                    parameter_formats.len(),
                    parameters.len()
                ));
            }
            Frontend::Bind(Bind {
                portal,
                statement,
                parameter_formats,
                parameters,
                result_formats,
            })
        }
        b'D' => Frontend::Describe(body.target("DESCRIBE")?),
        b'C' => Frontend::Close(body.target("CLOSE")?),
        b'E' => Frontend::Execute {
            portal: body.text("portal name")?,
            // Negative means no limit, as in PostgreSQL.
            limit: u32::try_from(body.i32("row limit")?).unwrap_or(0),
        },
        b'H' => Frontend::Flush,
        b'S' => Frontend::Sync,
        b'd' => Frontend::CopyData(body.all()),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(body.text("reason")?),
        b'X' => Frontend::Terminate,
        b'p' => return malformed("a password was sent, but none was asked for"),
        _ => {
            return malformed(
                "the function call protocol is not supported: use SELECT function(…)",
            );
        }
    })
}

/// A cursor over one frame, which never reads past its end.
struct Reader {
    rest: Bytes,
    /// The name of the first string that is not UTF-8.
    not_text: Option<&'static str>,
}

impl Reader {
    fn new(frame: Bytes) -> Reader {
        Reader { rest: frame, not_text: None }
    }

    fn need(&self, bytes: usize, what: &str) -> Result<(), Malformed> {
        if self.rest.len() < bytes {
            return malformed(format!("insufficient data left in message: {what} is cut off"));
        }
        Ok(())
    }

    fn u16(&mut self, what: &str) -> Result<u16, Malformed> {
        self.need(2, what)?;
        Ok(self.rest.get_u16())
    }

    fn u32(&mut self, what: &str) -> Result<u32, Malformed> {
        self.need(4, what)?;
        Ok(self.rest.get_u32())
    }

    fn i32(&mut self, what: &str) -> Result<i32, Malformed> {
        self.need(4, what)?;
        Ok(self.rest.get_i32())
    }

    /// Reads a count of items of at least `each` bytes. A count beyond the frame fails before
    /// anything is allocated for it.
    fn count(&mut self, each: usize, what: &str) -> Result<usize, Malformed> {
        let count = usize::from(self.u16(what)?);
        self.need(count * each, what)?;
        Ok(count)
    }

    fn formats(&mut self, what: &str) -> Result<Vec<i16>, Malformed> {
        let count = self.count(2, what)?;
        let formats: Vec<i16> = (0..count).map(|_| self.rest.get_i16()).collect();
        match formats.iter().find(|format| !matches!(format, 0 | 1)) {
            Some(format) => malformed(format!("unsupported format code: {format}")),
            None => Ok(formats),
        }
    }

    fn value(&mut self) -> Result<Option<Bytes>, Malformed> {
        let length = self.i32("parameter length")?;
        match usize::try_from(length) {
            Ok(length) => {
                self.need(length, "parameter")?;
                Ok(Some(self.rest.split_to(length)))
            }
            Err(_) if length == -1 => Ok(None),
            Err(_) => malformed(format!("invalid parameter length {length}")),
        }
    }

    fn text(&mut self, what: &'static str) -> Result<Text, Malformed> {
        let Some(end) = self.rest.iter().position(|&byte| byte == 0) else {
            return malformed(format!("invalid string in message: {what} has no end"));
        };
        let text = self.rest.split_to(end);
        self.rest.advance(1);
        if str::from_utf8(&text).is_err() {
            self.not_text.get_or_insert(what);
            return malformed(format!("invalid byte sequence for encoding \"UTF8\" in {what}"));
        }
        Ok(Text(text))
    }

    fn target(&mut self, what: &'static str) -> Result<Target, Malformed> {
        self.need(1, what)?;
        match self.rest.get_u8() {
            b'S' => Ok(Target::Statement(self.text("statement name")?)),
            b'P' => Ok(Target::Portal(self.text("portal name")?)),
            other => malformed(format!("invalid {what} message subtype {other}")),
        }
    }

    fn all(&mut self) -> Bytes {
        self.rest.split_to(self.rest.len())
    }

    fn end(&self, what: &str) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            left => malformed(format!("invalid message format: {left} bytes too many in {what}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tag: u8, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&[tag]);
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_message_waits_for_its_last_byte() {
        let whole = frame(b'Q', b"SELECT 1\0");
        for cut in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..cut]);
            assert_eq!(message(&mut part, 1000), Ok(None), "cut at {cut}");
            assert_eq!(part.len(), cut, "nothing is consumed");
        }
        let mut both = whole.clone();
        both.extend_from_slice(&frame(b'S', b""));
        assert!(
            matches!(message(&mut both, 1000), Ok(Some(Frontend::Query(text))) if text.as_str() == "SELECT 1")
        );
        assert_eq!(message(&mut both, 1000), Ok(Some(Frontend::Sync)));
        assert_eq!(message(&mut both, 1000), Ok(None));
    }

    #[test]
    fn a_bind_is_read_field_by_field() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\x02\0\0\0\x01";
        let Ok(Some(Frontend::Bind(bind))) = message(&mut frame(b'B', body), 1000) else {
            panic!("no bind")
        };
        assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("p", "s"));
        assert_eq!(bind.parameter_formats, [1]);
        assert_eq!(bind.parameters, [Some(Bytes::from_static(b"\0\0\0\x07")), None]);
        assert_eq!(bind.result_formats, [0, 1]);
    }

    #[test]
    fn every_prefix_of_a_body_is_malformed_or_a_message_but_never_a_panic() {
        let bodies: [(u8, &[u8]); 5] = [
            (b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\x02\0\0\0\x01"),
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
            (b'D', b"Ss\0"),
            (b'E', b"p\0\0\0\0\x05"),
            (b'Q', b"SELECT 1\0"),
        ];
        for (tag, body) in bodies {
            assert!(matches!(message(&mut frame(tag, body), 1000), Ok(Some(_))));
            for cut in 0..body.len() {
                assert!(
                    message(&mut frame(tag, &body[..cut]), 1000).is_err(),
                    "{} cut at {cut}",
                    tag as char
                );
            }
        }
    }

    #[test]
    fn flipped_bytes_never_panic() {
        let whole = frame(
            b'B',
            b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\x02\0\0\0\x01",
        );
        for at in 0..whole.len() {
            for value in 0..=255u8 {
                let mut flipped = whole.clone();
                flipped[at] = value;
                let _ = message(&mut flipped, 1000);
                let mut flipped = whole.clone();
                flipped[at] = value;
                let _ = opening(&mut flipped);
            }
        }
    }

    #[test]
    fn lengths_are_refused_before_their_bytes_arrive() {
        for (bytes, why) in [
            (&b"Q\x7f\xff\xff\xff"[..], "exceeds the limit"),
            (b"Q\xff\xff\xff\xff", "exceeds the limit"),
            (b"Q\0\0\0\x03", "invalid message length 3"),
            (b"!", "invalid frontend message type"),
        ] {
            let error = message(&mut BytesMut::from(bytes), 1000).expect_err("refused");
            assert!(error.0.contains(why), "{error}");
        }
        assert!(opening(&mut BytesMut::from(&b"\0\0\x27\x11"[..])).is_err());
    }

    #[test]
    fn text_that_is_not_utf8_is_distinguished_from_garbage() {
        let not_text = |what, in_query| Ok(Some(Frontend::NotText { what, in_query }));
        assert_eq!(message(&mut frame(b'Q', b"SELECT '\xff'\0"), 1000), not_text("query", true));
        assert_eq!(message(&mut frame(b'D', b"S\xff\0"), 1000), not_text("statement name", false));
        assert!(
            message(&mut frame(b'Q', b"SELECT '\xff'"), 1000).is_err(),
            "without an end it is garbage"
        );
    }

    #[test]
    fn openings() {
        assert_eq!(
            opening(&mut BytesMut::from(&b"\0\0\0\x08\x04\xd2\x16\x2f"[..])),
            Ok(Some(Opening::Encryption))
        );
        assert_eq!(
            opening(&mut BytesMut::from(&b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07\0\0\0\x09"[..])),
            Ok(Some(Opening::Cancel { process: 7, secret: 9 }))
        );
        let mut startup = BytesMut::from(&b"\0\0\0\x13\0\x03\0\0user\0root\0\0"[..]);
        let parameters = vec![("user".to_owned(), "root".to_owned())];
        assert_eq!(opening(&mut startup), Ok(Some(Opening::Startup { minor: 0, parameters })));
        let old =
            opening(&mut BytesMut::from(&b"\0\0\0\x09\0\x02\0\0\0"[..])).expect_err("version 2");
        assert!(old.0.contains("2.0"), "{old}");
    }
}
