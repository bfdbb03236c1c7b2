//! A link: the queue of frames to another node, and the connection that carries them.
//!
//! A thread that has frames to send writes them itself as far as the socket takes them. The rest
//! goes to the link's thread, and frames that are queued meanwhile are coalesced into the next
//! write. One thread writes at a time and sets `writing`; while `left` is not empty, that is the
//! link's thread.

use super::frame::{self, HEADER_BYTES};
use super::{FIRST_BACK_OFF, LONGEST_BACK_OFF};
use crate::clock::Clock;
use meridian_machine::Incarnation;
use parking_lot::{Condvar, Mutex};
use rustix::net::{RecvFlags, SendFlags};
use rustls::ClientConnection;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const COALESCE_BYTES: usize = 256 << 10;

/// A connection on which this node sends.
pub(super) struct Line {
    socket: TcpStream,
    /// The TLS state. Its lock is uncontended, because one thread is `writing` at a time.
    seal: Option<Mutex<ClientConnection>>,
}

impl Line {
    pub fn new(socket: TcpStream, seal: Option<ClientConnection>) -> Line {
        Line { socket, seal: seal.map(Mutex::new) }
    }

    /// Encrypts the bytes in place, if the connection uses TLS.
    fn seal(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let Some(seal) = &self.seal else { return Ok(()) };
        let mut seal = seal.lock();
        seal.writer().write_all(bytes)?;
        bytes.clear();
        while seal.wants_write() {
            seal.write_tls(bytes)?;
        }
        Ok(())
    }
}

/// True if the other side has closed a connection on which it never sends.
pub(super) fn closed(stream: &TcpStream) -> bool {
    let mut byte = [0u8; 1];
    match rustix::net::recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, read)) => read == 0,
        Err(error) => !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
    }
}

struct Frame {
    deadline: Option<u64>,
    payload: Vec<u8>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Frame>,
    queued_bytes: usize,
    /// Set by the link's thread only.
    line: Option<Arc<Line>>,
    /// The incarnation of the node at the other side.
    incarnation: Incarnation,
    /// The version that both nodes speak on the connection.
    version: u16,
    /// True while a thread is writing. That thread finds frames that are queued meanwhile.
    writing: bool,
    /// Bytes that the socket did not take at once, for the link's thread.
    left: Vec<u8>,
    /// True if the link's thread is to write the queued frames.
    flush_due: bool,
    /// The incarnation of the node that connected to this node last, and the version that it spoke.
    knocked: (Incarnation, u16),
    stopped: bool,
}

/// The link to one node.
pub(super) struct Link {
    state: Mutex<State>,
    changed: Condvar,
    dropped: AtomicU64,
    queue_bytes: usize,
    frame_bytes: usize,
}

impl Link {
    pub fn new(queue_bytes: usize, frame_bytes: usize) -> Link {
        let (state, changed, dropped) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        Link { state, changed, dropped, queue_bytes, frame_bytes }
    }

    /// Queues a frame. Drops it if there is no room or no connection, or if this node may not send
    /// yet.
    pub fn post(&self, may_speak: bool, deadline: Option<u64>, payload: Vec<u8>) {
        let mut state = self.state.lock();
        let bytes = payload.len() + HEADER_BYTES;
        let fits =
            state.queued_bytes + bytes <= self.queue_bytes && payload.len() <= self.frame_bytes;
        if !may_speak || !fits || state.line.is_none() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.queued_bytes += bytes;
        state.queue.push_back(Frame { deadline, payload });
    }

    /// Writes the queued frames, as far as that is possible without waiting.
    pub fn flush(&self, clock: &Clock) {
        let mut buffer = Vec::new();
        let mut state = self.state.lock();
        if state.writing {
            return;
        }
        while !state.queue.is_empty() {
            let Some(line) = state.line.clone() else { break };
            buffer.clear();
            gather(&mut state, &mut buffer, clock);
            state.writing = true;
            drop(state);
            let sent = line.seal(&mut buffer).and_then(|()| {
                match rustix::net::send(
                    &line.socket,
                    &buffer,
                    SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
                ) {
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
                    sent => Ok(sent?),
                }
            });
            state = self.state.lock();
            if !state.line.as_ref().is_some_and(|now| Arc::ptr_eq(now, &line)) {
                continue; // The connection was lost meanwhile, with the bytes in flight.
            }
            let Ok(sent) = sent else {
                self.lose(&mut state);
                break;
            };
            if sent < buffer.len() {
                state.left = buffer.split_off(sent);
                self.changed.notify_one();
                return; // `writing` stays set: the link's thread continues.
            }
        }
        state.writing = false;
    }

    /// Has the link's thread write the queued frames, if there are any.
    pub fn flush_soon(&self) {
        let mut state = self.state.lock();
        if !state.queue.is_empty() && !state.writing {
            state.flush_due = true;
            self.changed.notify_one();
        }
    }

    /// The link's thread: carries frames over a connection to this incarnation of the node, until
    /// the connection is lost or the link is stopped.
    pub fn carry(&self, line: Line, (incarnation, version): (Incarnation, u16), clock: &Clock) {
        let line = Arc::new(line);
        let mut state = self.state.lock();
        // A node that has connected with a newer version meanwhile speaks it on this side, too.
        if state.stopped || state.knocked.0 == incarnation && state.knocked.1 > version {
            self.changed.wait_for(&mut state, FIRST_BACK_OFF);
            return;
        }
        (state.line, state.incarnation, state.version) =
            (Some(Arc::clone(&line)), incarnation, version);
        while state.line.is_some() {
            if state.left.is_empty() {
                // No thread reads this direction: a closed connection shows at the next write, or
                // here.
                if !state.flush_due {
                    self.changed.wait_for(&mut state, LONGEST_BACK_OFF);
                }
                if std::mem::take(&mut state.flush_due) && state.left.is_empty() {
                    drop(state);
                    self.flush(clock);
                    state = self.state.lock();
                    continue;
                }
                if state.left.is_empty() && !state.writing && closed(&line.socket) {
                    self.lose(&mut state);
                }
                continue;
            }
            let left = std::mem::take(&mut state.left);
            drop(state);
            let wrote = (&line.socket).write_all(&left);
            state = self.state.lock();
            if wrote.is_err() {
                self.lose(&mut state);
            }
            state.writing = false;
            drop(state);
            self.flush(clock);
            state = self.state.lock();
        }
    }

    /// The link's thread: waits before it reconnects, unless the node connects or the link is
    /// stopped.
    pub fn wait(&self, at_most: Duration) {
        let mut state = self.state.lock();
        if !state.stopped {
            self.changed.wait_for(&mut state, at_most);
        }
    }

    /// Notes that this incarnation of the node has connected to this node, and can speak this
    /// version. So the node is reachable, and a connection to an earlier incarnation, or of an
    /// earlier version, is closed and made again.
    pub fn knock(&self, incarnation: Incarnation, version: u16) {
        let mut state = self.state.lock();
        state.knocked = (incarnation, version);
        if state.line.is_some() && (state.incarnation != incarnation || state.version < version) {
            self.lose(&mut state);
        }
        self.changed.notify_one();
    }

    /// Stops the link.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        self.lose(&mut state);
    }

    pub fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    pub fn is_connected(&self) -> bool {
        self.state.lock().line.is_some()
    }

    /// Returns the version that both nodes speak, while there is a connection.
    #[cfg(test)]
    pub fn version(&self) -> Option<u16> {
        let state = self.state.lock();
        state.line.is_some().then_some(state.version)
    }

    /// Returns the number of dropped frames.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Closes the connection, and drops the queued frames.
    fn lose(&self, state: &mut State) {
        if let Some(line) = state.line.take() {
            let _ = line.socket.shutdown(Shutdown::Both);
        }
        self.dropped.fetch_add(state.queue.len() as u64, Ordering::Relaxed);
        state.queue.clear();
        state.queued_bytes = 0;
        // The link's thread was to write the rest and has not started: no other place would reset
        // `writing`.
        if !std::mem::take(&mut state.left).is_empty() {
            state.writing = false;
        }
        self.changed.notify_one();
    }
}

/// Moves frames into one write. Drops frames whose deadline has passed.
fn gather(state: &mut State, buffer: &mut Vec<u8>, clock: &Clock) {
    let mut latest = None;
    while buffer.len() < COALESCE_BYTES {
        let Some(Frame { deadline, payload }) = state.queue.pop_front() else { break };
        state.queued_bytes -= payload.len() + HEADER_BYTES;
        let now =
            |latest: &mut Option<u64>| *latest.get_or_insert_with(|| clock.now().interval.latest);
        if deadline.is_none_or(|deadline| now(&mut latest) < deadline) {
            frame::append(buffer, &payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The connection is lost after a writer has left bytes to the link's thread, and before that
    /// thread has started.
    #[test]
    fn remains_of_a_lost_connection_do_not_block_writes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let link = Link::new(1_000, 1_000);
        let mut state = link.state.lock();
        state.line = Some(Arc::new(Line::new(connect(), None)));
        (state.writing, state.left) = (true, b"the rest of a frame".to_vec());
        link.lose(&mut state);
        assert!(!state.writing && state.left.is_empty() && state.line.is_none());
        // A thread that is writing resets the flag itself.
        state.writing = true;
        link.lose(&mut state);
        assert!(state.writing);
    }
}
