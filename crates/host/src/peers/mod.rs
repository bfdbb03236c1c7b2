//! Frames between nodes.
//!
//! Every node keeps one connection to each other node for sending, and accepts one from each for
//! receiving. A frame may be lost, but not altered, and frames of one connection keep their order.
//! The protocols are built for that.
//!
//! | file | content |
//! |---|---|
//! | `hello` | the first message of each side of a connection, and its versions |
//! | `unproven` | limits for connections that have not authenticated yet |
//! | `link` | the queue and the connection to one node |
//! | `frame` | the boundaries of messages on a connection |
//!
//! Invariants:
//! 1. A link's queue is bounded in bytes. Frames that do not fit, or that are posted while the link
//!    is not connected, are dropped and counted.
//! 2. A frame with a deadline leaves only while the clock's latest is before the deadline.
//! 3. Memory for a frame grows as its bytes arrive, never by the announced length, and never above
//!    the limit.
//! 4. A connection with an error (cluster, version, checksum, length, another disk, an earlier
//!    incarnation) is closed with a reason in the log; other connections go on.
//! 5. Until this node is admitted to the cluster, it sends only hellos and accepts only hellos.
//! 6. A connection that has not authenticated has a deadline, and the number of such connections is
//!    bounded: on an open network any process can connect.
//! 7. Where members have certificates ([`crate::trust`]), all of this is inside TLS, and the node
//!    named in the hello is the node named in the certificate.
//! 8. Both ends of a connection use the highest version that both speak (`hello`). A node of the
//!    version before ranges closes the connection at a hello with a range; the caller then connects
//!    again and says a hello of that version.
//!
//! Not yet here: room in a full queue set aside for votes and heartbeats.

mod frame;
mod hello;
mod link;
mod unproven;

use self::hello::{Hello, Versions};
use self::link::{Line, Link, closed};
use self::unproven::{Complaints, PATIENCE, Timed, Unproven};
use crate::clock::{Clock, ClockBound};
use crate::identity::{Identity, NotMet};
use crate::panics::PanicGuard;
use crate::trust::{Certificates, certificates, enrolment};
use meridian_machine::{Incarnation, NodeId};
use meridian_placement::{Greeting, IdentityMismatch};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

const FIRST_BACK_OFF: Duration = Duration::from_millis(5);
const LONGEST_BACK_OFF: Duration = Duration::from_millis(500);

/// The node at the other end of a connection, its incarnation, and the version that both speak on
/// it.
#[derive(Clone, Copy)]
struct Met {
    node: NodeId,
    incarnation: Incarnation,
    version: u16,
}

/// Options of a node's links.
#[derive(Debug)]
pub struct PeersOptions {
    /// This node's identity, with the peers that it has met.
    pub identity: Arc<Identity>,
    /// The certificates for authentication; `None` where no other machine can connect.
    pub certificates: Option<Arc<Certificates>>,
    /// The addresses of the other members.
    pub others: BTreeMap<NodeId, String>,
    /// Ends the node when its own code panics.
    pub guard: Arc<PanicGuard>,
    /// Bytes that one link may queue.
    pub queue_bytes: usize,
    /// Bytes of the largest frame.
    pub frame_bytes: usize,
}

/// Receives frames. Called on the thread of the connection.
pub trait Receive: Send + Sync {
    /// Handles frames that came with one read from this incarnation of a node.
    fn receive(&self, from: NodeId, incarnation: Incarnation, frames: &[&[u8]]);
}

/// The links of a node.
pub struct Peers {
    options: PeersOptions,
    versions: Versions,
    clock: Arc<Clock>,
    links: BTreeMap<NodeId, Arc<Link>>,
    /// The reason why this node cannot take part, once another member remembers it with another
    /// disk.
    identity_refusal: watch::Sender<Option<String>>,
    heard: Mutex<Vec<TcpStream>>,
    /// The number of each node's connections to this one.
    speaking: Mutex<BTreeMap<NodeId, usize>>,
    /// The number of connections that have not authenticated yet.
    unproven: Arc<AtomicUsize>,
    /// Limits repeated log entries.
    complaints: Complaints,
    stopped: AtomicBool,
    address: Option<SocketAddr>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl Peers {
    /// Starts a thread for each link, and one that accepts connections if there is a listener.
    pub fn start(
        options: PeersOptions,
        listener: Option<TcpListener>,
        clock: Arc<Clock>,
        receive: Arc<dyn Receive>,
    ) -> io::Result<Arc<Self>> {
        Peers::speaking(Versions::OWN, options, listener, clock, receive)
    }

    fn speaking(
        versions: Versions,
        options: PeersOptions,
        listener: Option<TcpListener>,
        clock: Arc<Clock>,
        receive: Arc<dyn Receive>,
    ) -> io::Result<Arc<Self>> {
        let links = options
            .others
            .keys()
            .map(|node| (*node, Arc::new(Link::new(options.queue_bytes, options.frame_bytes))))
            .collect();
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let peers = Arc::new(Peers {
            options,
            versions,
            clock,
            links,
            identity_refusal: watch::Sender::new(None),
            heard: Mutex::default(),
            speaking: Mutex::default(),
            unproven: Arc::default(),
            complaints: Complaints::default(),
            stopped: AtomicBool::new(false),
            address,
            threads: Mutex::default(),
        });
        let mut threads = Vec::new();
        for (node, address) in &peers.options.others {
            let (of_thread, node, address) = (Arc::clone(&peers), *node, address.clone());
            let guard = &peers.options.guard;
            threads.push(
                guard.spawn(format!("link-{node}"), move || {
                    of_thread.keep_connected(node, &address)
                })?,
            );
        }
        if let Some(listener) = listener {
            let of_thread = Arc::clone(&peers);
            let guard = &peers.options.guard;
            threads.push(guard.spawn("accept", move || of_thread.accept(&listener, &receive))?);
        }
        *peers.threads.lock() = threads;
        Ok(peers)
    }

    /// Queues a frame, or drops it. [`Peers::flush`] sends the queued frames.
    pub fn post(&self, to: NodeId, deadline: Option<u64>, payload: Vec<u8>) {
        if let Some(link) = self.links.get(&to) {
            link.post(self.options.identity.admitted(), deadline, payload);
        }
    }

    /// Writes the queued frames for a node, on the caller's thread as far as that is possible
    /// without waiting.
    pub fn flush(&self, to: NodeId) {
        if let Some(link) = self.links.get(&to) {
            link.flush(&self.clock);
        }
    }

    /// Has the link's own thread write the queued frames to a node.
    pub fn flush_soon(&self, to: NodeId) {
        if let Some(link) = self.links.get(&to) {
            link.flush_soon();
        }
    }

    /// Returns the number of dropped frames.
    pub fn dropped(&self) -> u64 {
        self.links.values().map(|link| link.dropped()).sum()
    }

    /// Returns the nodes with connections in both directions: they can receive requests and
    /// respond.
    pub fn connected(&self) -> Vec<NodeId> {
        self.links.keys().copied().filter(|node| self.is_connected(*node)).collect()
    }

    /// True if a node is connected in both directions.
    pub fn is_connected(&self, node: NodeId) -> bool {
        let speaks = || self.speaking.lock().get(&node).is_some_and(|connections| *connections > 0);
        self.options.identity.admitted()
            && self.links.get(&node).is_some_and(|link| link.is_connected())
            && speaks()
    }

    /// Returns a watch that is set when this node's persisted promises are lost. It holds the error
    /// for the operator.
    pub fn identity_refusal(&self) -> watch::Receiver<Option<String>> {
        self.identity_refusal.subscribe()
    }

    /// Closes all connections and waits for the threads.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for link in self.links.values() {
            link.stop();
        }
        if let Some(mut address) = self.address {
            if address.ip().is_unspecified() {
                address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
            }
            let _ = TcpStream::connect_timeout(&address, PATIENCE); // Wakes the accepting thread.
        }
        for stream in self.heard.lock().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    /// The thread of a link: connects, and carries frames until the connection is lost.
    fn keep_connected(&self, node: NodeId, address: &str) {
        let Some(link) = self.links.get(&node) else { return };
        let mut back_off = FIRST_BACK_OFF;
        let mut complained = false;
        while !link.is_stopped() {
            match self.connect(node, address) {
                Ok((line, met)) => {
                    tracing::debug!(%node, address, met.version, "connected");
                    (back_off, complained) = (FIRST_BACK_OFF, false);
                    link.carry(line, (met.incarnation, met.version), &self.clock);
                }
                Err(error) => {
                    if !std::mem::replace(&mut complained, true) {
                        let why = enrolment::words(&error);
                        tracing::info!(%node, address, why, "cannot connect; trying again");
                    }
                    link.wait(back_off);
                    back_off = (back_off * 2).min(LONGEST_BACK_OFF);
                }
            }
        }
    }

    fn timebase(&self) -> u8 {
        u8::from(self.clock.bound() == ClockBound::Cluster)
    }

    fn hello(&self, versions: Versions, to: NodeId) -> Vec<u8> {
        let identity = &self.options.identity;
        let (cluster, from, greeting) = (identity.cluster, identity.me, identity.greeting(to));
        let timebase = self.timebase();
        Hello { versions, cluster, from, to, greeting, timebase }.encode()
    }

    /// Checks that a hello is meant for this node and comes from a member on the same time base.
    fn check_hello(&self, hello: &Hello) -> Result<(NodeId, Greeting), String> {
        let identity = &self.options.identity;
        let Hello { versions: _, cluster, from, to, greeting, timebase } = *hello;
        if cluster != identity.cluster {
            return Err("it belongs to another cluster".into());
        }
        if to != identity.me {
            return Err(format!("it looks for node {}, this is node {}", to.0, identity.me.0));
        }
        if !self.options.others.contains_key(&from) {
            return Err(format!("node {} is not a member of the cluster", from.0));
        }
        if timebase != self.timebase() {
            let own = self.clock.bound().name();
            return Err(format!(
                "node {} has another source of time (this node: {own}): all members need the same",
                from.0
            ));
        }
        Ok((from, greeting))
    }

    fn connect(&self, node: NodeId, address: &str) -> io::Result<(Line, Met)> {
        let mut failed =
            io::Error::new(io::ErrorKind::NotFound, format!("{address} does not resolve"));
        for address in address.to_socket_addrs()? {
            let open = || TcpStream::connect_timeout(&address, PATIENCE);
            match open() {
                Ok(socket) => {
                    let met = self.meet(node, socket, self.versions);
                    let Err(error) = &met else { return met };
                    return match self.versions.without_range() {
                        Some(exact) if hello::is_unanswered(error) => {
                            self.meet(node, open()?, exact)
                        }
                        _ => met,
                    };
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Makes a socket the connection on which this node speaks, with a hello of these versions.
    fn meet(&self, node: NodeId, socket: TcpStream, versions: Versions) -> io::Result<(Line, Met)> {
        let mut timed = Timed::new(&socket)?;
        let mut seal = self.options.certificates.as_ref().map(|own| own.call(node)).transpose()?;
        let met = match &mut seal {
            Some(seal) => {
                self.introduce(node, versions, &mut rustls::Stream::new(seal, &mut timed))?
            }
            None => self.introduce(node, versions, &mut timed)?,
        };
        timed.proven()?;
        Ok((Line::new(socket, seal), met))
    }

    /// Says hello, and checks that the answer comes from the node that this connection is for.
    fn introduce(
        &self,
        node: NodeId,
        versions: Versions,
        stream: &mut (impl Read + Write),
    ) -> io::Result<Met> {
        stream.write_all(&self.hello(versions, node))?;
        let mut magic = [0; hello::MAGIC.len()];
        stream.read_exact(&mut magic)?;
        let hello = Hello::read(magic, stream)?;
        let (from, greeting) = self.check_hello(&hello).map_err(io::Error::other)?;
        if from != node {
            return Err(io::Error::other(format!("node {} responds at this address", from.0)));
        }
        let identity = &self.options.identity;
        let version =
            versions.common(identity.me, hello.versions, node).map_err(io::Error::other)?;
        let met = identity.receive(node, greeting);
        // Accepted from a member's own address only: a process that connects to this node may send
        // anything.
        if let Err(NotMet::IdentityMismatch(why @ IdentityMismatch::Myself(_))) = &met {
            self.identity_refusal.send_replace(Some(why.to_string()));
        }
        met.map(|()| Met { node, incarnation: greeting.incarnation, version })
            .map_err(|why| io::Error::other(why.to_string()))
    }

    fn accept(self: Arc<Self>, listener: &TcpListener, receive: &Arc<dyn Receive>) {
        loop {
            let accepted = listener.accept();
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let Ok((stream, address)) = accepted else {
                std::thread::sleep(FIRST_BACK_OFF); // No file descriptors are left, for example.
                continue;
            };
            let Some(unproven) = Unproven::begin(&self.unproven) else {
                self.complaints
                    .make("too many connections have not authenticated yet".into(), address);
                continue; // Dropping the stream closes the connection.
            };
            if let Ok(kept) = stream.try_clone() {
                let mut heard = self.heard.lock();
                heard.retain(|stream| !closed(stream));
                heard.push(kept);
            }
            let (of_thread, receive) = (Arc::clone(&self), Arc::clone(receive));
            let thread = self.options.guard.spawn("peer", move || {
                if let Err(why) = of_thread.read_connection(&stream, unproven, &*receive)
                    && !of_thread.stopped.load(Ordering::SeqCst)
                {
                    of_thread.complaints.make(why, address);
                }
                let _ = stream.shutdown(Shutdown::Both);
            });
            match thread {
                Ok(thread) => {
                    let mut threads = self.threads.lock();
                    threads.retain(|thread| !thread.is_finished());
                    threads.push(thread);
                }
                Err(error) => tracing::warn!(%error, "no thread for a peer's connection"),
            }
        }
    }

    /// Reads one connection until it ends.
    fn read_connection(
        &self,
        socket: &TcpStream,
        mut unproven: Unproven,
        receive: &dyn Receive,
    ) -> Result<(), String> {
        let broken = |error: io::Error| enrolment::words(&error);
        let mut timed = Timed::new(socket).map_err(broken)?;
        let mut magic = [0; hello::MAGIC.len()];
        let Some(own) = &self.options.certificates else {
            timed.read_exact(&mut magic).map_err(broken)?;
            let met = self.greet(magic, |_| Ok(()), &mut timed)?;
            timed.proven().map_err(broken)?;
            unproven.end();
            return self.read_frames(met, &mut timed, receive);
        };
        let mut stream = rustls::StreamOwned::new(own.answer().map_err(broken)?, timed);
        stream.read_exact(&mut magic).map_err(broken)?;
        if &magic == enrolment::MAGIC {
            let others: Vec<NodeId> = self.options.others.keys().copied().collect();
            let node = enrolment::answer(own, &others, &mut stream).map_err(broken)?;
            tracing::info!(%node, "gave a member its certificate");
            return Ok(());
        }
        let shown = stream.conn.peer_certificates().and_then(|chain| chain.first().cloned());
        let proves = |from: NodeId| match &shown {
            Some(shown) if certificates::names(shown, from) => Ok(()),
            Some(_) => {
                Err(format!("it says that it is node {}, its certificate says otherwise", from.0))
            }
            None => Err("it shows no certificate".into()),
        };
        let met = self.greet(magic, proves, &mut stream)?;
        stream.sock.proven().map_err(broken)?;
        unproven.end();
        self.read_frames(met, &mut stream, receive)
    }

    /// Receives the frames of a member's incarnation, until the connection ends.
    fn read_frames(
        &self,
        met: Met,
        stream: &mut impl Read,
        receive: &dyn Receive,
    ) -> Result<(), String> {
        *self.speaking.lock().entry(met.node).or_default() += 1;
        if let Some(link) = self.links.get(&met.node) {
            link.knock(met.incarnation, met.version);
        }
        let result = self.listen_to(met, stream, receive);
        if let Some(connections) = self.speaking.lock().get_mut(&met.node) {
            *connections -= 1;
        }
        result
    }

    /// Receives a hello and responds with this node's. Stores nothing about a peer that does not
    /// prove its identity.
    fn greet(
        &self,
        magic: [u8; hello::MAGIC.len()],
        proves: impl Fn(NodeId) -> Result<(), String>,
        stream: &mut (impl Read + Write),
    ) -> Result<Met, String> {
        let identity = &self.options.identity;
        let hello = Hello::read(magic, stream).map_err(|error| enrolment::words(&error))?;
        let (from, greeting) = self.check_hello(&hello)?;
        proves(from)?;
        // A refused caller gets a response, too, so that it can report why.
        let met = self.versions.common(identity.me, hello.versions, from).and_then(|version| {
            let met = identity.receive(from, greeting).map_err(|why| why.to_string());
            met.map(|()| Met { node: from, incarnation: greeting.incarnation, version })
        });
        let exact = self.versions.without_range();
        let form = exact.filter(|exact| hello.versions == *exact).unwrap_or(self.versions);
        stream.write_all(&self.hello(form, from)).map_err(|error| enrolment::words(&error))?;
        met
    }

    fn listen_to(
        &self,
        Met { node: from, incarnation, .. }: Met,
        stream: &mut impl Read,
        receive: &dyn Receive,
    ) -> Result<(), String> {
        let mut bytes = Vec::with_capacity(64 << 10);
        let mut start = 0;
        let mut chunk = vec![0; 64 << 10];
        loop {
            let mut frames = Vec::new();
            let damaged = loop {
                match frame::first(&bytes[start..], self.options.frame_bytes) {
                    Ok(Some(frame)) => {
                        start += frame::HEADER_BYTES + frame.len();
                        frames.push(frame);
                    }
                    Ok(None) => break None,
                    Err(why) => break Some(why),
                }
            };
            if !frames.is_empty() && self.options.identity.admitted() {
                receive.receive(from, incarnation, &frames);
            }
            if let Some(why) = damaged {
                return Err(why);
            }
            bytes.drain(..start);
            start = 0;
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => bytes.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nodes close connections without TLS's closing alert: frames have their own
                // lengths and checksums.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(enrolment::words(&error)),
            }
            if bytes.capacity() > 1 << 20 && bytes.len() < 64 << 10 {
                bytes.shrink_to(64 << 10);
            }
        }
    }
}

#[cfg(test)]
mod tests;
