//! Somebody who has connected and not said who he is: on a network anybody can. He is not waited
//! for for long, there are never more than some of them, and the log is not theirs to fill.

use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long anybody may take to say who he is, and to take in what is written to him.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// So many connections may be about to say who they are.
pub(super) const MOST: usize = 256;
/// The same complaint is made once in so long.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
const MOST_COMPLAINTS: usize = 64;

/// A socket that is waited for until some moment at most, however little comes at a time.
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
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it took too long to say who it is");
        self.until.map(|until| left(until).ok_or_else(late)).transpose()
    }

    /// Who it is is known.
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

/// A place among those who have not said yet who they are.
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

/// Why connections were closed lately, and when that was said.
#[derive(Default)]
pub(super) struct Complaints(Mutex<Vec<(String, Instant)>>);

impl Complaints {
    /// Says it in the log, and not with each connection that is tried again.
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
