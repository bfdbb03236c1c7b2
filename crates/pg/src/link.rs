//! A client's socket with its two buffers.
//!
//! Input: one read takes as many messages as have arrived. Output: responses are collected, and
//! sent in one write when the client waits for them. The output is bounded: past [`OUTPUT_BYTES`]
//! the session writes before it continues, so a client that does not read pauses its own statement
//! and nothing else.

use crate::backend::{Answers, Report};
use crate::counters::{Counters, count};
use crate::frontend::Malformed;
use crate::presence::Presence;
use bytes::BytesMut;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The size of the output, in bytes, beyond which it is sent before the statement continues.
pub(crate) const OUTPUT_BYTES: usize = 64 << 10;
/// The capacity for one read, in bytes.
const INPUT_BYTES: usize = 16 << 10;
/// The capacity, in bytes, above which an empty buffer is freed.
const KEEP_BYTES: usize = 1 << 20;
/// The time that a client has to read its last message before the connection is closed.
const FAREWELL: Duration = Duration::from_secs(2);

/// The reason why a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The client ended the connection.
    Closed,
    /// The server ends the connection, with an error.
    Fatal { code: &'static str, message: String, detail: Option<String>, hint: Option<String> },
}

impl End {
    pub(crate) fn fatal(code: &'static str, message: impl Into<String>) -> End {
        End::Fatal { code, message: message.into(), detail: None, hint: None }
    }
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Closed
    }
}

impl From<Malformed> for End {
    fn from(malformed: Malformed) -> End {
        End::fatal("08P01", malformed.0)
    }
}

pub(crate) struct Link {
    stream: TcpStream,
    pub(crate) input: BytesMut,
    pub(crate) answers: Answers,
    /// The number of bytes of `answers` that have been sent.
    sent: usize,
    /// True if the client waits for the contents of `answers`.
    pub(crate) due: bool,
    counters: Arc<Counters>,
}

impl Link {
    /// Returns the client's address and port.
    pub(crate) fn peer(&self) -> Option<(String, u16)> {
        self.stream.peer_addr().ok().map(|address| (address.ip().to_string(), address.port()))
    }

    pub(crate) fn new(stream: TcpStream, counters: Arc<Counters>) -> Link {
        // Responses are sent in whole batches already, so that Nagle's algorithm would only delay
        // them.
        let _ = stream.set_nodelay(true);
        Link {
            stream,
            input: BytesMut::with_capacity(INPUT_BYTES),
            answers: Answers::default(),
            sent: 0,
            due: false,
            counters,
        }
    }

    /// Waits for more bytes. Cancel-safe: dropping the future loses no byte.
    pub(crate) async fn receive(&mut self) -> Result<(), End> {
        if self.input.is_empty() && self.input.capacity() > KEEP_BYTES {
            self.input = BytesMut::new();
        }
        if self.input.capacity() - self.input.len() < INPUT_BYTES / 2 {
            self.input.reserve(INPUT_BYTES);
        }
        match self.stream.read_buf(&mut self.input).await? {
            0 if self.input.is_empty() => Err(End::Closed),
            0 => {
                Err(Malformed("the connection was closed in the middle of a message".into()).into())
            }
            received => {
                self.counters.received_bytes.fetch_add(received as u64, Relaxed);
                Ok(())
            }
        }
    }

    /// Returns the client's presence, for statements that compute. `None` if there are too many
    /// open files: it is not known then.
    pub(crate) fn presence(&self) -> Option<Presence> {
        Presence::of(&self.stream).ok()
    }

    /// Waits until the client closes the connection while its statement runs. Input is kept for
    /// later; a client that sends more than [`KEEP_BYTES`] ahead is not watched any longer.
    /// Cancel-safe.
    pub(crate) async fn gone(&mut self) -> End {
        while self.input.len() < KEEP_BYTES {
            if let Err(end) = self.receive().await {
                return end;
            }
        }
        std::future::pending().await
    }

    /// Sends all responses. Cancel-safe: dropping the future loses no byte.
    pub(crate) async fn flush(&mut self) -> Result<(), End> {
        while self.sent < self.answers.len() {
            match self.stream.write(&self.answers.bytes()[self.sent..]).await? {
                0 => return Err(End::Closed),
                sent => {
                    self.sent += sent;
                    self.counters.sent_bytes.fetch_add(sent as u64, Relaxed);
                }
            }
        }
        self.sent = 0;
        self.due = false;
        self.answers.clear();
        Ok(())
    }

    /// Sends the reason to the client, and closes the connection. Input is read and dropped for a
    /// moment: closing over unread bytes would reset the connection and destroy the message.
    pub(crate) async fn end(mut self, end: End) {
        if let End::Fatal { code, message, detail, hint } = end {
            count(&self.counters.errors_total);
            self.answers.error(&Report {
                severity: "FATAL",
                code,
                message: &message,
                detail: detail.as_deref(),
                hint: hint.as_deref(),
                position: None,
                fields: None,
            });
            let farewell = async {
                self.flush().await.ok()?;
                self.stream.shutdown().await.ok()?;
                let mut rest = [0; 4096];
                while self.stream.read(&mut rest).await.ok()? > 0 {}
                Some(())
            };
            let _ = tokio::time::timeout(FAREWELL, farewell).await;
        } else {
            let _ = tokio::time::timeout(FAREWELL, self.flush()).await;
        }
    }
}
