//! Frames between nodes.
//!
//! Every node keeps one connection to each other node for what it says, and accepts one from each for what it hears. A frame may
//! be lost, never altered, and frames of one connection keep their order; everything above is built for that.
//!
//! ```text
//!   hello:  "MERIDIAN" version:u16 cluster:u128 from:u32 to:u32 life:u32 disk:u64 yours:u64 timebase:u8 crc:u32     each side sends one
//!   frame:  length:u32 crc:u32 payload                                                                              integers little-endian
//! ```
//!
//! `yours` is the other's disk, as this node remembers it; 0 if they have never met. `timebase` is 0 where times are those of the day, and 1 on cluster time: the
//! two do not compare, so that nodes of both do not speak.
//!
//! Whoever has something to say writes it on his own thread as far as the socket takes it; what is left goes to the link's writer
//! thread, and what others say meanwhile is coalesced into the next write.
//!
//! Invariants:
//! 1. A link's queue is bounded in bytes; what does not fit is dropped and counted, and so is what is said while not connected.
//! 2. A frame with a deadline leaves only while the clock's latest is before it.
//! 3. Memory for a frame grows as its bytes arrive, never by the announced length, and never above the limit.
//! 4. A connection that says anything wrong (cluster, version, checksum, length, another disk, an earlier life) is closed with a reason in the
//!    log; nothing else notices.
//! 5. Until this node is admitted to the cluster, it says hello and nothing else, and hears nothing else.
//! 6. Whoever has not said in time who he is is not waited for, and there are never more than some of those: on a network anybody can connect.
//! 7. Where members have certificates ([`crate::trust`]), all of this is inside TLS, and a hello says what the certificate says.
//!
//! Not yet here: room in a full queue set aside for votes and heartbeats.

use crate::clock::{Clock, ClockBound};
use crate::identity::{Identity, NotMet};
use crate::trust::{Certificates, certificates, enrolment};
use meridian_machine::{Incarnation, NodeId};
use meridian_placement::{DiskId, Greeting, Stranger};
use parking_lot::{Condvar, Mutex};
use rustix::net::SendFlags;
use rustls::ClientConnection;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const MAGIC: &[u8; 8] = b"MERIDIAN";
/// The version of the frames. Nodes of different versions do not speak.
pub const VERSION: u16 = 3;
const HELLO_BYTES: usize = 59;
const HEADER_BYTES: usize = 8;
const COALESCE_BYTES: usize = 256 << 10;
const FIRST_BACK_OFF: Duration = Duration::from_millis(5);
const LONGEST_BACK_OFF: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(5);
/// So many connections may be about to say who they are.
const MOST_UNPROVEN: usize = 256;
/// The same complaint is made once in so long.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
const MOST_COMPLAINTS: usize = 64;

/// What the peers of a node agree on.
#[derive(Debug)]
pub struct PeersOptions {
    /// This node, and whom it has met.
    pub identity: Arc<Identity>,
    /// By what members know each other; nothing where nobody else can speak to them.
    pub certificates: Option<Arc<Certificates>>,
    /// Where the others are.
    pub others: BTreeMap<NodeId, String>,
    /// What one link may hold back.
    pub queue_bytes: usize,
    /// The largest frame.
    pub frame_bytes: usize,
}

/// Whoever takes in frames. Called on the thread of the connection.
pub trait Receive: Send + Sync {
    /// These frames came with one read from this life of a node.
    fn receive(&self, from: NodeId, life: Incarnation, frames: &[&[u8]]);
}

/// The links of a node.
pub struct Peers {
    options: PeersOptions,
    clock: Arc<Clock>,
    links: BTreeMap<NodeId, Arc<Link>>,
    /// Why this node cannot take part, if another member remembers it with another disk.
    stranger: watch::Sender<Option<String>>,
    heard: Mutex<Vec<TcpStream>>,
    /// How many connections each node speaks on to this one.
    speaking: Mutex<BTreeMap<NodeId, usize>>,
    /// How many have not said yet who they are.
    unproven: Arc<AtomicUsize>,
    /// What was complained of lately.
    complaints: Mutex<Vec<(String, Instant)>>,
    stopped: AtomicBool,
    address: Option<SocketAddr>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

struct Frame {
    deadline: Option<u64>,
    payload: Vec<u8>,
}

#[derive(Default)]
struct LinkState {
    queue: VecDeque<Frame>,
    queued_bytes: usize,
    line: Option<Arc<Line>>,
    /// The life of the node that it is connected to.
    life: Incarnation,
    /// Somebody is writing; he will find what is queued meanwhile.
    writing: bool,
    /// What the socket did not take at once: for the writer thread.
    left: Vec<u8>,
    stopped: bool,
}

/// A socket that is waited for until some moment at most, however little comes at a time.
struct Timed<'a> {
    socket: &'a TcpStream,
    until: Option<Instant>,
}

impl<'a> Timed<'a> {
    fn new(socket: &'a TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Timed { socket, until: Some(Instant::now() + PATIENCE) })
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = |until: Instant| until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it took too long to say who it is");
        self.until.map(|until| left(until).ok_or_else(late)).transpose()
    }

    /// Who it is is known.
    fn proven(&mut self) -> io::Result<()> {
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
struct Unproven(Option<Arc<AtomicUsize>>);

impl Unproven {
    fn begin(all: &Arc<AtomicUsize>) -> Option<Unproven> {
        if all.fetch_add(1, Ordering::Relaxed) < MOST_UNPROVEN {
            return Some(Unproven(Some(Arc::clone(all))));
        }
        all.fetch_sub(1, Ordering::Relaxed);
        None
    }

    fn end(&mut self) {
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

/// A connection on which this node speaks.
struct Line {
    socket: TcpStream,
    /// By one at a time anyway: whoever is `writing`.
    seal: Option<Mutex<ClientConnection>>,
}

impl Line {
    /// What goes over the socket for these bytes.
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

#[derive(Default)]
struct Link {
    state: Mutex<LinkState>,
    changed: Condvar,
    dropped: AtomicU64,
}

impl Peers {
    /// Starts a thread for each link, and one that accepts connections if there is a listener.
    pub fn start(
        options: PeersOptions,
        listener: Option<TcpListener>,
        clock: Arc<Clock>,
        receive: Arc<dyn Receive>,
    ) -> io::Result<Arc<Self>> {
        let links = options.others.keys().map(|node| (*node, Arc::new(Link::default()))).collect();
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let peers = Arc::new(Peers {
            options,
            clock,
            links,
            stranger: watch::Sender::new(None),
            heard: Mutex::default(),
            speaking: Mutex::default(),
            unproven: Arc::default(),
            complaints: Mutex::default(),
            stopped: AtomicBool::new(false),
            address,
            threads: Mutex::default(),
        });
        let mut threads = Vec::new();
        for (node, address) in &peers.options.others {
            let (of_thread, node, address) = (Arc::clone(&peers), *node, address.clone());
            let thread = std::thread::Builder::new().name(format!("link-{node}"));
            threads.push(thread.spawn(move || of_thread.keep_connected(node, &address))?);
        }
        if let Some(listener) = listener {
            let of_thread = Arc::clone(&peers);
            let thread = std::thread::Builder::new().name("accept".into());
            threads.push(thread.spawn(move || of_thread.accept(&listener, &receive))?);
        }
        *peers.threads.lock() = threads;
        Ok(peers)
    }

    /// Queues a frame, or drops it. [`Peers::flush`] sends what is queued.
    pub fn post(&self, to: NodeId, deadline: Option<u64>, payload: Vec<u8>) {
        let Some(link) = self.links.get(&to) else { return };
        let mut state = link.state.lock();
        let bytes = payload.len() + HEADER_BYTES;
        if state.line.is_none()
            || !self.options.identity.admitted()
            || state.queued_bytes + bytes > self.options.queue_bytes
            || payload.len() > self.options.frame_bytes
        {
            link.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.queued_bytes += bytes;
        state.queue.push_back(Frame { deadline, payload });
    }

    /// Writes what is queued for a node, on the caller's thread as far as that goes without waiting.
    pub fn flush(&self, to: NodeId) {
        let Some(link) = self.links.get(&to) else { return };
        let mut buffer = Vec::new();
        let mut state = link.state.lock();
        if state.writing {
            return;
        }
        while !state.queue.is_empty() {
            let Some(line) = state.line.clone() else { break };
            buffer.clear();
            self.gather(&mut state, &mut buffer);
            state.writing = true;
            drop(state);
            let sent = line.seal(&mut buffer).and_then(|()| {
                match rustix::net::send(&line.socket, &buffer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
                    sent => Ok(sent?),
                }
            });
            state = link.state.lock();
            if !state.line.as_ref().is_some_and(|now| Arc::ptr_eq(now, &line)) {
                continue; // it was lost meanwhile, and with it what was on its way
            }
            let Ok(sent) = sent else {
                link.lose(&mut state, &line);
                break;
            };
            if sent < buffer.len() {
                state.left = buffer.split_off(sent);
                link.changed.notify_one();
                return; // `writing` stays: the link's thread goes on from here
            }
        }
        state.writing = false;
    }

    /// How many frames were dropped.
    pub fn dropped(&self) -> u64 {
        self.links.values().map(|link| link.dropped.load(Ordering::Relaxed)).sum()
    }

    /// The nodes with which there is a connection in both directions: who asks one of them can be answered.
    pub fn connected(&self) -> Vec<NodeId> {
        if !self.options.identity.admitted() {
            return Vec::new();
        }
        let speaks = |node: &NodeId| self.speaking.lock().get(node).is_some_and(|connections| *connections > 0);
        let connected = |link: &Link| link.state.lock().line.is_some();
        self.links.iter().filter(|(node, link)| connected(link) && speaks(node)).map(|(node, _)| *node).collect()
    }

    /// Becomes the reason, once it turns out that this node has lost what it had promised to others.
    pub fn stranger(&self) -> watch::Receiver<Option<String>> {
        self.stranger.subscribe()
    }

    /// A node has begun to speak: so it can be reached, and what was connected to an earlier life of it is void.
    fn knock(&self, from: NodeId, life: Incarnation) {
        let Some(link) = self.links.get(&from) else { return };
        let mut state = link.state.lock();
        if let Some(line) = state.line.clone()
            && state.life != life
        {
            link.lose(&mut state, &line);
        }
        link.changed.notify_one();
    }

    /// Closes everything and waits for the threads.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for link in self.links.values() {
            let mut state = link.state.lock();
            state.stopped = true;
            if let Some(line) = state.line.take() {
                let _ = line.socket.shutdown(Shutdown::Both);
            }
            link.changed.notify_all();
        }
        if let Some(mut address) = self.address {
            if address.ip().is_unspecified() {
                address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
            }
            let _ = TcpStream::connect_timeout(&address, PATIENCE); // wakes the accepting thread
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

    fn gather(&self, state: &mut LinkState, buffer: &mut Vec<u8>) {
        let mut latest = None;
        while buffer.len() < COALESCE_BYTES {
            let Some(frame) = state.queue.pop_front() else { break };
            state.queued_bytes -= frame.payload.len() + HEADER_BYTES;
            if let Some(deadline) = frame.deadline
                && *latest.get_or_insert_with(|| self.clock.now().interval.latest) >= deadline
            {
                continue;
            }
            let length = u32::try_from(frame.payload.len()).expect("invariant: a posted frame is within the limit");
            buffer.extend_from_slice(&length.to_le_bytes());
            buffer.extend_from_slice(&crc32fast::hash(&frame.payload).to_le_bytes());
            buffer.extend_from_slice(&frame.payload);
        }
    }

    /// The life of a link: connect, write what the others' writes left over, connect again.
    fn keep_connected(&self, node: NodeId, address: &str) {
        let Some(link) = self.links.get(&node) else { return };
        let mut back_off = FIRST_BACK_OFF;
        let mut complained = false;
        loop {
            let mut state = link.state.lock();
            if state.stopped {
                return;
            }
            let Some(line) = state.line.clone() else {
                drop(state);
                match self.connect(node, address) {
                    Ok((line, life)) => {
                        let mut state = link.state.lock();
                        if state.stopped {
                            return;
                        }
                        tracing::debug!(%node, address, "connected");
                        (back_off, complained) = (FIRST_BACK_OFF, false);
                        (state.line, state.life) = (Some(Arc::new(line)), life);
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut complained, true) {
                            let why = enrolment::words(&error);
                            tracing::info!(%node, address, why, "cannot connect; trying on");
                        }
                        let mut state = link.state.lock();
                        if !state.stopped {
                            link.changed.wait_for(&mut state, back_off);
                        }
                        back_off = (back_off * 2).min(LONGEST_BACK_OFF);
                    }
                }
                continue;
            };
            if state.left.is_empty() {
                // Nobody reads this direction, so a closed connection shows up at the next write, or here.
                link.changed.wait_for(&mut state, LONGEST_BACK_OFF);
                if state.left.is_empty() && closed(&line.socket) && !state.writing {
                    link.lose(&mut state, &line);
                }
                continue;
            }
            let left = std::mem::take(&mut state.left);
            drop(state);
            let wrote = (&line.socket).write_all(&left);
            let mut state = link.state.lock();
            if wrote.is_err() {
                link.lose(&mut state, &line);
            }
            state.writing = false;
            drop(state);
            self.flush(node);
        }
    }

    fn timebase(&self) -> u8 {
        u8::from(self.clock.bound() == ClockBound::Cluster)
    }

    fn hello(&self, to: NodeId) -> [u8; HELLO_BYTES] {
        let identity = &self.options.identity;
        let Greeting { disk, life, yours } = identity.greeting(to);
        let mut bytes = Vec::with_capacity(HELLO_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&identity.cluster.to_le_bytes());
        for number in [identity.me.0, to.0, life.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [disk.0, yours.map_or(0, |yours| yours.0)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(self.timebase());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes.try_into().expect("invariant: a hello has one length")
    }

    /// Who said hello, and what, if it is meant for this node.
    fn check_hello(&self, hello: &[u8; HELLO_BYTES]) -> Result<(NodeId, Greeting), String> {
        let identity = &self.options.identity;
        let word = |at: usize| u32::from_le_bytes([hello[at], hello[at + 1], hello[at + 2], hello[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if &hello[..8] != MAGIC {
            let tls = hello[..2] == [22, 3]; // how a handshake begins
            let what = if tls {
                "it speaks TLS: all members have certificates, or none"
            } else {
                "it does not speak this protocol"
            };
            return Err(what.into());
        }
        let version = u16::from_le_bytes([hello[8], hello[9]]);
        if version != VERSION {
            return Err(format!("it speaks version {version}, this node version {VERSION}"));
        }
        if word(HELLO_BYTES - 4) != crc32fast::hash(&hello[..HELLO_BYTES - 4]) {
            return Err("its hello is damaged".into());
        }
        if hello[10..26] != identity.cluster.to_le_bytes() {
            return Err("it belongs to another cluster".into());
        }
        let (from, to, life) = (NodeId(word(26)), NodeId(word(30)), Incarnation(word(34)));
        if to != identity.me {
            return Err(format!("it looks for node {}, this is node {}", to.0, identity.me.0));
        }
        if !self.options.others.contains_key(&from) {
            return Err(format!("node {} is not a member of the cluster", from.0));
        }
        if hello[54] != self.timebase() {
            let own = self.clock.bound().name();
            return Err(format!(
                "node {} has its time from elsewhere (this node: {own}): all members need the same",
                from.0
            ));
        }
        let yours = Some(long(46)).filter(|number| *number != 0).map(DiskId);
        Ok((from, Greeting { disk: DiskId(long(38)), life, yours }))
    }

    fn connect(&self, node: NodeId, address: &str) -> io::Result<(Line, Incarnation)> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, format!("{address} names no address"));
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(socket) => {
                    let mut timed = Timed::new(&socket)?;
                    let mut seal = self.options.certificates.as_ref().map(|own| own.call(node)).transpose()?;
                    let life = match &mut seal {
                        Some(seal) => self.introduce(node, &mut rustls::Stream::new(seal, &mut timed))?,
                        None => self.introduce(node, &mut timed)?,
                    };
                    timed.proven()?;
                    return Ok((Line { socket, seal: seal.map(Mutex::new) }, life));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Says who this is, and hears whether it is the node that was meant to be there.
    fn introduce(&self, node: NodeId, stream: &mut (impl Read + Write)) -> io::Result<Incarnation> {
        stream.write_all(&self.hello(node))?;
        let mut hello = [0; HELLO_BYTES];
        stream.read_exact(&mut hello)?;
        let (from, greeting) = self.check_hello(&hello).map_err(io::Error::other)?;
        if from != node {
            return Err(io::Error::other(format!("node {} answers there", from.0)));
        }
        let met = self.options.identity.hear(node, greeting);
        // Believed of a member's own address only: whoever connects to this node may say anything.
        if let Err(NotMet::Stranger(why @ Stranger::Myself(_))) = &met {
            self.stranger.send_replace(Some(why.to_string()));
        }
        met.map(|()| greeting.life).map_err(|why| io::Error::other(why.to_string()))
    }

    fn accept(self: Arc<Self>, listener: &TcpListener, receive: &Arc<dyn Receive>) {
        loop {
            let accepted = listener.accept();
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let Ok((stream, address)) = accepted else {
                std::thread::sleep(FIRST_BACK_OFF); // out of file descriptors, say
                continue;
            };
            let Some(unproven) = Unproven::begin(&self.unproven) else {
                self.complain(format!("{MOST_UNPROVEN} connections have not said yet who they are"), address);
                continue; // which closes it
            };
            if let Ok(kept) = stream.try_clone() {
                let mut heard = self.heard.lock();
                heard.retain(|stream| !closed(stream));
                heard.push(kept);
            }
            let (of_thread, receive) = (Arc::clone(&self), Arc::clone(receive));
            let thread = std::thread::Builder::new().name("peer".into()).spawn(move || {
                if let Err(why) = of_thread.hear(&stream, unproven, &*receive)
                    && !of_thread.stopped.load(Ordering::SeqCst)
                {
                    of_thread.complain(why, address);
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

    /// Says in the log why a connection was closed, and not with each that is tried again.
    fn complain(&self, why: String, address: SocketAddr) {
        let now = Instant::now();
        let mut complaints = self.complaints.lock();
        complaints.retain(|(_, at)| now.duration_since(*at) < COMPLAIN_EVERY);
        if complaints.len() < MOST_COMPLAINTS && complaints.iter().all(|(said, _)| *said != why) {
            tracing::warn!(%address, %why, "closed a peer's connection");
            complaints.push((why, now));
        }
    }

    /// Reads one connection until it ends.
    fn hear(&self, socket: &TcpStream, mut unproven: Unproven, receive: &dyn Receive) -> Result<(), String> {
        let broken = |error: io::Error| enrolment::words(&error);
        let mut timed = Timed::new(socket).map_err(broken)?;
        let mut magic = [0; MAGIC.len()];
        let Some(own) = &self.options.certificates else {
            timed.read_exact(&mut magic).map_err(broken)?;
            let (from, greeting) = self.greet(magic, |_| Ok(()), &mut timed)?;
            timed.proven().map_err(broken)?;
            unproven.end();
            return self.heed(from, greeting.life, &mut timed, receive);
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
            Some(_) => Err(format!("it says that it is node {}, its certificate says otherwise", from.0)),
            None => Err("it shows no certificate".into()),
        };
        let (from, greeting) = self.greet(magic, proves, &mut stream)?;
        stream.sock.proven().map_err(broken)?;
        unproven.end();
        self.heed(from, greeting.life, &mut stream, receive)
    }

    /// Takes in what a member says, until the connection ends.
    fn heed(
        &self,
        from: NodeId,
        life: Incarnation,
        stream: &mut impl Read,
        receive: &dyn Receive,
    ) -> Result<(), String> {
        *self.speaking.lock().entry(from).or_default() += 1;
        self.knock(from, life);
        let result = self.listen_to(from, life, stream, receive);
        if let Some(connections) = self.speaking.lock().get_mut(&from) {
            *connections -= 1;
        }
        result
    }

    /// Hears who it is, and says who this is; nothing is remembered of somebody who does not prove it.
    fn greet(
        &self,
        magic: [u8; MAGIC.len()],
        proves: impl Fn(NodeId) -> Result<(), String>,
        stream: &mut (impl Read + Write),
    ) -> Result<(NodeId, Greeting), String> {
        let broken = |error: io::Error| error.to_string();
        let mut hello = [0; HELLO_BYTES];
        let (first, rest) = hello.split_at_mut(MAGIC.len());
        first.copy_from_slice(&magic);
        if &magic == MAGIC {
            stream.read_exact(rest).map_err(broken)?;
        }
        let (from, greeting) = self.check_hello(&hello)?;
        proves(from)?;
        // A stranger is answered, so that it hears that it is one.
        let met = self.options.identity.hear(from, greeting);
        stream.write_all(&self.hello(from)).map_err(broken)?;
        met.map_err(|why| why.to_string())?;
        Ok((from, greeting))
    }

    fn listen_to(
        &self,
        from: NodeId,
        life: Incarnation,
        stream: &mut impl Read,
        receive: &dyn Receive,
    ) -> Result<(), String> {
        let mut bytes = Vec::with_capacity(64 << 10);
        let mut start = 0;
        let mut chunk = vec![0; 64 << 10];
        loop {
            let mut frames = Vec::new();
            let damaged = loop {
                match next_frame(&bytes[start..], self.options.frame_bytes) {
                    Ok(Some(frame)) => {
                        start += HEADER_BYTES + frame.len();
                        frames.push(frame);
                    }
                    Ok(None) => break None,
                    Err(why) => break Some(why),
                }
            };
            if !frames.is_empty() && self.options.identity.admitted() {
                receive.receive(from, life, &frames);
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
                // Whoever ends does not say goodbye in TLS either: frames have their own lengths and checksums.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(enrolment::words(&error)),
            }
            if bytes.capacity() > 1 << 20 && bytes.len() < 64 << 10 {
                bytes.shrink_to(64 << 10);
            }
        }
    }
}

impl Link {
    /// The connection is gone, and with it what was to go over it.
    fn lose(&self, state: &mut LinkState, line: &Line) {
        let _ = line.socket.shutdown(Shutdown::Both);
        state.line = None;
        self.dropped.fetch_add(state.queue.len() as u64, Ordering::Relaxed);
        state.queue.clear();
        state.queued_bytes = 0;
        // What is left was the link's thread's to write, which has not begun: nobody else would say that nobody writes any more.
        if !std::mem::take(&mut state.left).is_empty() {
            state.writing = false;
        }
        self.changed.notify_one();
    }
}

/// The first whole frame of these bytes, if it has arrived.
fn next_frame(bytes: &[u8], limit: usize) -> Result<Option<&[u8]>, String> {
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

/// True if the other side has closed a connection on which it never says anything.
fn closed(stream: &TcpStream) -> bool {
    let mut byte = [0u8; 1];
    match rustix::net::recv(stream, &mut byte, rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT) {
        Ok((_, read)) => read == 0,
        Err(error) => !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_placement::{Member, Members};
    use std::sync::mpsc;

    struct Heard(Mutex<mpsc::Sender<(NodeId, Vec<u8>)>>);
    impl Receive for Heard {
        fn receive(&self, from: NodeId, _: Incarnation, frames: &[&[u8]]) {
            for frame in frames {
                let _ = self.0.lock().send((from, frame.to_vec()));
            }
        }
    }

    struct Pair {
        one: Arc<Peers>,
        two: Arc<Peers>,
        heard: mpsc::Receiver<(NodeId, Vec<u8>)>,
        address: SocketAddr,
    }

    fn identity(me: u32, cluster: u32) -> Identity {
        let member = |node| Member { node: NodeId(node), zone: String::new(), address: format!("{cluster}") };
        Identity::in_memory(NodeId(me), &Members::new([1, 2].map(member)).unwrap()).unwrap()
    }

    fn start(
        me: u32,
        identity: Identity,
        clock: ClockBound,
        other: SocketAddr,
        listener: TcpListener,
    ) -> (Arc<Peers>, mpsc::Receiver<(NodeId, Vec<u8>)>) {
        let (sender, heard) = mpsc::channel();
        let options = PeersOptions {
            identity: Arc::new(identity),
            certificates: None,
            others: BTreeMap::from([(NodeId(3 - me), other.to_string())]),
            queue_bytes: 64 << 20,
            frame_bytes: 16 << 20,
        };
        let clock = Arc::new(Clock::new(clock));
        (Peers::start(options, Some(listener), clock, Arc::new(Heard(Mutex::new(sender)))).unwrap(), heard)
    }

    fn pair(clusters: [u32; 2]) -> Pair {
        pair_on(clusters, ClockBound::LOOPBACK)
    }

    fn pair_on(clusters: [u32; 2], clock: ClockBound) -> Pair {
        let listeners = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [listeners[0].local_addr().unwrap(), listeners[1].local_addr().unwrap()];
        let [first, second] = listeners;
        let (one, _) = start(1, identity(1, clusters[0]), ClockBound::LOOPBACK, addresses[1], first);
        let (two, heard) = start(2, identity(2, clusters[1]), clock, addresses[0], second);
        Pair { one, two, heard, address: addresses[1] }
    }

    fn wait_until(what: impl Fn() -> bool) {
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while !what() {
            assert!(std::time::Instant::now() < end, "it never came");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn frames_arrive_whole_and_in_order_whatever_their_size() {
        let pair = pair([7, 7]);
        wait_until(|| pair.one.connected().len() == 1);
        let sizes = [0usize, 1, 100, 70_000, 5_000_000, 3];
        for size in sizes {
            pair.one.post(NodeId(2), None, vec![size as u8; size]);
        }
        pair.one.flush(NodeId(2));
        for size in sizes {
            let (from, frame) = pair.heard.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!((from, frame), (NodeId(1), vec![size as u8; size]));
        }
        pair.one.stop();
        pair.two.stop();
    }

    /// A connection is lost after a writer has left something to the link's thread, and before that has begun.
    #[test]
    fn what_was_left_of_a_lost_connection_keeps_nobody_from_writing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let line = Line { socket: TcpStream::connect(listener.local_addr().unwrap()).unwrap(), seal: None };
        let link = Link::default();
        let mut state = link.state.lock();
        (state.writing, state.left) = (true, b"the rest of a frame".to_vec());
        link.lose(&mut state, &line);
        assert!(!state.writing && state.left.is_empty());
        // Whoever is at it says so himself.
        state.writing = true;
        link.lose(&mut state, &line);
        assert!(state.writing);
    }

    #[test]
    fn a_frame_past_its_deadline_does_not_leave() {
        let pair = pair([7, 7]);
        wait_until(|| pair.one.connected().len() == 1);
        pair.one.post(NodeId(2), Some(1), b"late".to_vec());
        pair.one.post(NodeId(2), Some(u64::MAX), b"in time".to_vec());
        pair.one.flush(NodeId(2));
        assert_eq!(pair.heard.recv_timeout(Duration::from_secs(20)).unwrap().1, b"in time");
        pair.one.stop();
        pair.two.stop();
    }

    #[test]
    fn who_comes_back_with_another_disk_is_told_and_not_heard() {
        let pair = pair([7, 7]);
        wait_until(|| pair.two.connected().len() == 1);
        pair.one.stop();
        let listener = TcpListener::bind(pair.one.address.unwrap()).unwrap();
        let (replaced, _) = start(1, identity(1, 7), ClockBound::LOOPBACK, pair.address, listener);
        let told = replaced.stranger();
        wait_until(|| told.borrow().is_some());
        assert!(told.borrow().as_ref().unwrap().contains("node 2 remembers this node with another disk"));
        replaced.post(NodeId(2), None, b"vote for me".to_vec());
        replaced.flush(NodeId(2));
        assert!(replaced.connected().is_empty() && pair.two.connected().is_empty());
        assert!(pair.heard.recv_timeout(Duration::from_millis(50)).is_err());
        replaced.stop();
        pair.two.stop();
    }

    #[test]
    fn another_cluster_and_another_time_are_refused_and_garbage_disturbs_nobody() {
        for strangers in [pair([7, 8]), pair_on([7, 7], ClockBound::Cluster)] {
            std::thread::sleep(Duration::from_millis(50));
            assert!(strangers.one.connected().is_empty() && strangers.two.connected().is_empty());
            strangers.one.stop();
            strangers.two.stop();
        }

        let pair = pair([7, 7]);
        wait_until(|| pair.one.connected().len() == 1);
        let mut garbage = TcpStream::connect(pair.address).unwrap();
        garbage.write_all(&[0xa5; 4096]).unwrap();
        let mut rest = Vec::new();
        let _ = garbage.read_to_end(&mut rest);
        assert!(rest.is_empty());
        let mut damaged = TcpStream::connect(pair.address).unwrap();
        damaged.write_all(&pair.one.hello(NodeId(2))).unwrap();
        damaged.write_all(&[1, 0, 0, 0, 9, 9, 9, 9, 5]).unwrap();
        let _ = damaged.read_to_end(&mut rest);
        pair.one.post(NodeId(2), None, b"still here".to_vec());
        pair.one.flush(NodeId(2));
        assert_eq!(pair.heard.recv_timeout(Duration::from_secs(20)).unwrap().1, b"still here");
        pair.one.stop();
        pair.two.stop();
    }

    /// More than may be about to say who they are, and they say it slowly.
    #[test]
    fn who_does_not_say_who_he_is_keeps_nobody_out() {
        let pair = pair([7, 7]);
        wait_until(|| pair.one.connected().len() == 1);
        let silent: Vec<TcpStream> =
            (0..MOST_UNPROVEN + 20).map(|_| TcpStream::connect(pair.address).unwrap()).collect();
        let mut last = silent.last().unwrap();
        last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(last.read(&mut [0]).unwrap(), 0, "there is no room for it");
        pair.one.post(NodeId(2), None, b"heard".to_vec());
        pair.one.flush(NodeId(2));
        assert_eq!(pair.heard.recv_timeout(Duration::from_secs(20)).unwrap().1, b"heard");
        // A byte now and then does not help, be it the right one.
        let mut first = &silent[0];
        first.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut said = pair.one.hello(NodeId(2)).into_iter();
        while !matches!(first.read(&mut [0]), Ok(0)) {
            let byte = said.next().expect("it is closed before it has said everything");
            let _ = first.write_all(&[byte]);
        }
        drop(silent);
        wait_until(|| pair.two.unproven.load(Ordering::Relaxed) == 0);
        pair.one.stop();
        pair.two.stop();
    }

    #[test]
    fn frames_are_found_in_any_bytes_without_a_panic() {
        assert_eq!(next_frame(&[], 10), Ok(None));
        assert_eq!(next_frame(&[5, 0, 0, 0, 1, 2, 3], 10), Ok(None));
        assert!(next_frame(&[0xff; 8], 10).is_err());
        assert!(next_frame(&[1, 0, 0, 0, 9, 9, 9, 9, 5], 10).is_err());
        assert_eq!(next_frame(&[0; 8], 10), Ok(Some(&[][..])));
    }
}
