//! The server's messages, appended to one buffer, which is sent in one write.
//!
//! Every message is a tag, a length that includes itself, and a body. The length is patched in when
//! the body is complete.

use meridian_sql::ErrorFields;

/// Messages that have not been sent.
#[derive(Default)]
pub(crate) struct Answers {
    bytes: Vec<u8>,
    /// The end of the last complete message.
    complete: usize,
}

/// The fields of ErrorResponse and NoticeResponse.
pub(crate) struct Report<'a> {
    pub(crate) severity: &'a str,
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    pub(crate) detail: Option<&'a str>,
    pub(crate) hint: Option<&'a str>,
    /// The position in the statement's text, in characters counted from 1.
    pub(crate) position: Option<usize>,
    pub(crate) fields: Option<&'a ErrorFields>,
}

/// A column of a RowDescription.
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    /// The table that the column comes from, and its number there; 0 if it is computed.
    pub(crate) table: u32,
    pub(crate) number: i16,
    pub(crate) oid: u32,
    /// The size of a value in bytes, or -1 if it varies.
    pub(crate) size: i16,
    pub(crate) modifier: i32,
    pub(crate) format: i16,
}

impl Answers {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the sent messages; keeps the allocation unless it has become unusually large.
    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.complete = 0;
    }

    /// Removes a message whose encoding panicked half-way.
    pub(crate) fn drop_unfinished(&mut self) {
        self.bytes.truncate(self.complete);
    }

    /// Appends one message, whose body `write` writes.
    pub(crate) fn message(&mut self, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(tag);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        write(&mut self.bytes);
        let length = u32::try_from(self.bytes.len() - start)
            .expect("invariant: a message is shorter than 4 GB");
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        self.complete = self.bytes.len();
    }

    fn empty(&mut self, tag: u8) {
        self.bytes.extend_from_slice(&[tag, 0, 0, 0, 4]);
        self.complete = self.bytes.len();
    }

    /// Appends `N`: encryption is not supported. The only response that is not a message.
    pub(crate) fn no_encryption(&mut self) {
        self.bytes.push(b'N');
        self.complete = self.bytes.len();
    }

    pub(crate) fn authentication_ok(&mut self) {
        self.message(b'R', |body| body.extend_from_slice(&0u32.to_be_bytes()));
    }

    /// Appends NegotiateProtocolVersion: the server speaks 3.0, and knows none of these options.
    pub(crate) fn negotiate_version(&mut self, unknown_options: &[&str]) {
        self.message(b'v', |body| {
            body.extend_from_slice(&196_608u32.to_be_bytes());
            body.extend_from_slice(&(unknown_options.len() as u32).to_be_bytes());
            for option in unknown_options {
                cstring(body, option);
            }
        });
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            cstring(body, name);
            cstring(body, value);
        });
    }

    pub(crate) fn backend_key(&mut self, process: i32, secret: i32) {
        self.message(b'K', |body| {
            body.extend_from_slice(&process.to_be_bytes());
            body.extend_from_slice(&secret.to_be_bytes());
        });
    }

    /// Appends NotificationResponse.
    pub(crate) fn notification(&mut self, process: i32, channel: &str, payload: &str) {
        self.message(b'A', |body| {
            body.extend_from_slice(&process.to_be_bytes());
            cstring(body, channel);
            cstring(body, payload);
        });
    }

    /// Appends ReadyForQuery: `I` idle, `T` in a transaction block, `E` in a failed one.
    pub(crate) fn ready(&mut self, status: u8) {
        self.message(b'Z', |body| body.push(status));
    }

    pub(crate) fn parse_complete(&mut self) {
        self.empty(b'1');
    }

    pub(crate) fn bind_complete(&mut self) {
        self.empty(b'2');
    }

    pub(crate) fn close_complete(&mut self) {
        self.empty(b'3');
    }

    pub(crate) fn no_data(&mut self) {
        self.empty(b'n');
    }

    pub(crate) fn empty_query(&mut self) {
        self.empty(b'I');
    }

    pub(crate) fn portal_suspended(&mut self) {
        self.empty(b's');
    }

    pub(crate) fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |body| cstring(body, tag));
    }

    pub(crate) fn parameter_description(&mut self, types: impl ExactSizeIterator<Item = u32>) {
        self.message(b't', |body| {
            body.extend_from_slice(&(types.len() as u16).to_be_bytes());
            for oid in types {
                body.extend_from_slice(&oid.to_be_bytes());
            }
        });
    }

    pub(crate) fn row_description<'a>(&mut self, fields: impl ExactSizeIterator<Item = Field<'a>>) {
        self.message(b'T', |body| {
            body.extend_from_slice(&(fields.len() as u16).to_be_bytes());
            for field in fields {
                cstring(body, field.name);
                body.extend_from_slice(&field.table.to_be_bytes());
                body.extend_from_slice(&field.number.to_be_bytes());
                body.extend_from_slice(&field.oid.to_be_bytes());
                body.extend_from_slice(&field.size.to_be_bytes());
                body.extend_from_slice(&field.modifier.to_be_bytes());
                body.extend_from_slice(&field.format.to_be_bytes());
            }
        });
    }

    /// Appends CopyInResponse: the client may send COPY data.
    pub(crate) fn copy_in(&mut self, columns: usize, is_binary: bool) {
        self.copy(b'G', columns, is_binary);
    }

    /// Appends CopyOutResponse: COPY data follows.
    pub(crate) fn copy_out(&mut self, columns: usize, is_binary: bool) {
        self.copy(b'H', columns, is_binary);
    }

    fn copy(&mut self, tag: u8, columns: usize, is_binary: bool) {
        self.message(tag, |body| {
            body.push(u8::from(is_binary));
            body.extend_from_slice(&(columns as u16).to_be_bytes());
            for _ in 0..columns {
                body.extend_from_slice(&u16::from(is_binary).to_be_bytes());
            }
        });
    }

    /// Appends CopyData.
    pub(crate) fn copy_data(&mut self, record: &[u8]) {
        self.message(b'd', |body| body.extend_from_slice(record));
    }

    /// Appends CopyDone.
    pub(crate) fn copy_done(&mut self) {
        self.message(b'c', |_| {});
    }

    pub(crate) fn error(&mut self, report: &Report<'_>) {
        self.report(b'E', report);
    }

    pub(crate) fn notice(&mut self, report: &Report<'_>) {
        self.report(b'N', report);
    }

    fn report(&mut self, tag: u8, report: &Report<'_>) {
        self.message(tag, |body| {
            let mut field = |kind: u8, text: &str| {
                body.push(kind);
                cstring(body, text);
            };
            field(b'S', report.severity);
            field(b'V', report.severity);
            field(b'C', report.code);
            field(b'M', report.message);
            if let Some(detail) = report.detail {
                field(b'D', detail);
            }
            if let Some(hint) = report.hint {
                field(b'H', hint);
            }
            if let Some(position) = report.position {
                field(b'P', &position.to_string());
            }
            if let Some(fields) = report.fields {
                let named = [
                    (b's', fields.schema.as_deref()),
                    (b't', fields.table.as_deref()),
                    (b'c', fields.column.as_deref()),
                    (b'd', fields.data_type.as_deref()),
                    (b'n', fields.constraint.as_deref()),
                    (b'R', fields.routine),
                ];
                for (kind, text) in named {
                    if let Some(text) = text {
                        field(kind, text);
                    }
                }
            }
            body.push(0);
        });
    }
}

/// Appends a string with its terminator. The part after a zero byte is left out, since the zero
/// would end the string.
fn cstring(body: &mut Vec<u8>, text: &str) {
    let text = text.split('\0').next().unwrap_or_default();
    body.extend_from_slice(text.as_bytes());
    body.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_themselves_but_not_the_tag() {
        let mut answers = Answers::default();
        answers.ready(b'I');
        answers.command_complete("SELECT 1");
        assert_eq!(answers.bytes(), b"Z\0\0\0\x05IC\0\0\0\x0dSELECT 1\0");
    }

    #[test]
    fn an_error_has_its_fields_in_order_and_ends_with_a_zero() {
        let mut answers = Answers::default();
        answers.error(&Report {
            severity: "ERROR",
            code: "42P01",
            message: "no\0t",
            detail: None,
            hint: Some("h"),
            position: Some(12),
            fields: None,
        });
        assert_eq!(&answers.bytes()[5..], b"SERROR\0VERROR\0C42P01\0Mno\0Hh\0P12\0\0");
    }
}
