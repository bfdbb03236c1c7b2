//! Limits for connections that have not authenticated yet. On an open network any process can
//! connect: such a connection has a deadline, their number is bounded, and the log entries about
//! them are limited.

use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time for the authentication of a peer, and for each write to one.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may be authenticating at the same time.
pub(super) const MOST: usize = 256;
/// Time in which the same complaint is logged once.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
const MOST_COMPLAINTS: usize = 64;

/// A socket with a deadline for all reads and writes together.
pub(super) struct Timed<'a> {
    socket: &'a TcpStream,
    until: Option<Instant>,
}

impl<'a> Timed<'a> {
    pub fn new(socket: &'a TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Timed { socket, until: Some(Instant::now() + PATIENCE) })
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = |until: Instant| {
            until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        };
        let late =
            || io::Error::new(io::ErrorKind::TimedOut, "the peer took too long to identify itself");
        self.until.map(|until| left(until).ok_or_else(late)).transpose()
    }

    /// Removes the deadline, after the peer has authenticated.
    pub fn proven(&mut self) -> io::Result<()> {
        self.until = None;
        self.socket.set_read_timeout(None)?;
        self.socket.set_write_timeout(Some(PATIENCE))
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.socket.set_read_timeout(Some(left))?;
        }
        self.socket.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.socket.set_write_timeout(Some(left))?;
        }
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// A place among the connections that have not authenticated yet.
pub(super) struct Unproven(Option<Arc<AtomicUsize>>);

impl Unproven {
    pub fn begin(all: &Arc<AtomicUsize>) -> Option<Unproven> {
        if all.fetch_add(1, Ordering::Relaxed) < MOST {
            return Some(Unproven(Some(Arc::clone(all))));
        }
        all.fetch_sub(1, Ordering::Relaxed);
        None
    }

    pub fn end(&mut self) {
        if let Some(all) = self.0.take() {
            all.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Unproven {
    fn drop(&mut self) {
        self.end();
    }
}

/// The recent reasons of closed connections, with the times of their log entries.
#[derive(Default)]
pub(super) struct Complaints(Mutex<Vec<(String, Instant)>>);

impl Complaints {
    /// Logs the reason of a closed connection, unless it was logged recently.
    pub fn make(&self, why: String, address: SocketAddr) {
        let now = Instant::now();
        let mut made = self.0.lock();
        made.retain(|(_, at)| now.duration_since(*at) < COMPLAIN_EVERY);
        if made.len() < MOST_COMPLAINTS && made.iter().all(|(said, _)| *said != why) {
            tracing::warn!(%address, %why, "closed a peer's connection");
            made.push((why, now));
        }
    }
}
