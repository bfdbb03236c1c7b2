//! Nodes of different versions in one cluster.

use super::*;
use std::path::Path;

const ALL: [u32; 3] = [1, 2, 3];

fn members() -> ClusterMembers {
    let member =
        |node| Member { node: NodeId(node), zone: String::new(), address: format!("{node}") };
    ClusterMembers::new(ALL.map(member)).unwrap()
}

/// A node of the build that is tested, or of a build that speaks other versions.
fn node(
    versions: Versions,
    (me, folder): (u32, &Path),
    addresses: [SocketAddr; 3],
    listener: TcpListener,
) -> (Arc<Peers>, mpsc::Receiver<(NodeId, Vec<u8>)>) {
    let (sender, heard) = mpsc::channel();
    let others = ALL.into_iter().filter(|node| *node != me);
    let options = PeersOptions {
        identity: Arc::new(Identity::open(folder, NodeId(me), &members()).unwrap()),
        certificates: None,
        others: others
            .map(|node| (NodeId(node), addresses[node as usize - 1].to_string()))
            .collect(),
        guard: PanicGuard::of_test(),
        queue_bytes: 64 << 20,
        frame_bytes: 16 << 20,
    };
    let clock = Arc::new(Clock::new(ClockBound::LOOPBACK));
    let receive = Arc::new(Received(Mutex::new(sender)));
    (Peers::speaking(versions, options, Some(listener), clock, receive).unwrap(), heard)
}

const HELLO_6_BYTES: usize = 59;

/// The connections of a node of version 6: it reads hellos of 59 bytes, and closes the connection
/// at any other version.
struct Old {
    identity: Arc<Identity>,
    stopped: Arc<AtomicBool>,
    address: SocketAddr,
    heard: mpsc::Receiver<(NodeId, Vec<u8>)>,
    accepts: std::thread::JoinHandle<()>,
}

fn hello_of(identity: &Identity, to: NodeId) -> Vec<u8> {
    let (cluster, from, greeting) = (identity.cluster, identity.me, identity.greeting(to));
    let versions = Versions::exactly(6);
    let bytes = Hello { versions, cluster, from, to, greeting, timebase: 0 }.encode();
    assert_eq!(bytes.len(), HELLO_6_BYTES);
    bytes
}

fn read_hello(identity: &Identity, mut stream: &TcpStream) -> io::Result<NodeId> {
    let mut bytes = [0; HELLO_6_BYTES];
    stream.read_exact(&mut bytes)?;
    if bytes[8..10] != 6u16.to_le_bytes() {
        return Err(io::Error::other("it speaks another version"));
    }
    let (first, mut rest) = bytes.split_first_chunk().unwrap();
    let hello = Hello::read(*first, &mut rest)?;
    identity.receive(hello.from, hello.greeting).unwrap();
    Ok(hello.from)
}

impl Old {
    fn start((me, folder): (u32, &Path), listener: TcpListener) -> Old {
        let identity = Arc::new(Identity::open(folder, NodeId(me), &members()).unwrap());
        let (sender, heard) = mpsc::channel();
        let (of_thread, stopped) = (Arc::clone(&identity), Arc::new(AtomicBool::new(false)));
        let (stops, address) = (Arc::clone(&stopped), listener.local_addr().unwrap());
        let accepts = std::thread::spawn(move || {
            let mut readers = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if stops.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(from) = read_hello(&of_thread, &stream) else { continue };
                (&stream).write_all(&hello_of(&of_thread, from)).unwrap();
                let (sender, mut reading) = (sender.clone(), stream.try_clone().unwrap());
                let reader = std::thread::spawn(move || {
                    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
                    while let Ok(read @ 1..) = reading.read(&mut chunk) {
                        bytes.extend_from_slice(&chunk[..read]);
                        while let Some(frame) = frame::first(&bytes, 1 << 20).unwrap() {
                            let _ = sender.send((from, frame.to_vec()));
                            bytes.drain(..frame::HEADER_BYTES + frame.len());
                        }
                    }
                });
                readers.push((stream, reader));
            }
            for (stream, reader) in readers {
                let _ = stream.shutdown(Shutdown::Both);
                reader.join().unwrap();
            }
        });
        Old { identity, stopped, address, heard, accepts }
    }

    /// The connection on which this node speaks to another one.
    fn connect(&self, to: u32, address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        (&stream).write_all(&hello_of(&self.identity, NodeId(to))).unwrap();
        assert_eq!(read_hello(&self.identity, &stream).unwrap(), NodeId(to));
        stream
    }

    fn stop(self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        self.accepts.join().unwrap();
    }
}

fn heard_from(heard: &mpsc::Receiver<(NodeId, Vec<u8>)>, from: u32, frame: &[u8]) {
    let received = heard.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(received, (NodeId(from), frame.to_vec()));
}

fn say(from: &Peers, to: u32, frame: &[u8]) {
    from.post(NodeId(to), None, frame.to_vec());
    from.flush(NodeId(to));
}

fn versions_of(peers: &Peers, nodes: [u32; 2]) -> [Option<u16>; 2] {
    nodes.map(|node| peers.links[&NodeId(node)].version())
}

#[test]
fn a_node_of_the_version_before_takes_part_until_it_is_replaced() {
    let folders = ALL.map(|_| tempfile::tempdir().unwrap());
    let listeners = ALL.map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [0, 1, 2].map(|at: usize| listeners[at].local_addr().unwrap());
    let [first, second, third] = listeners;
    let start = |me: u32, listener| {
        node(Versions::OWN, (me, folders[me as usize - 1].path()), addresses, listener)
    };
    let (one, heard_by_one) = start(1, first);
    let (two, heard_by_two) = start(2, second);
    let old = Old::start((3, folders[2].path()), third);
    let [mut to_one, mut to_two] = [1, 2].map(|to| old.connect(to, addresses[to as usize - 1]));
    wait_until(|| one.connected().len() == 2 && two.connected().len() == 2);
    assert_eq!(versions_of(&one, [2, 3]), [Some(7), Some(6)]);
    assert_eq!(versions_of(&two, [1, 3]), [Some(7), Some(6)]);
    say(&one, 3, b"from one");
    heard_from(&old.heard, 1, b"from one");
    say(&two, 3, b"from two");
    heard_from(&old.heard, 2, b"from two");
    let mut framed = Vec::new();
    frame::append(&mut framed, b"from three");
    to_one.write_all(&framed).unwrap();
    heard_from(&heard_by_one, 3, b"from three");
    to_two.write_all(&framed).unwrap();
    heard_from(&heard_by_two, 3, b"from three");

    drop((to_one, to_two));
    old.stop();
    wait_until(|| one.connected().len() == 1 && two.connected().len() == 1);
    let (three, heard_by_three) = start(3, TcpListener::bind(addresses[2]).unwrap());
    wait_until(|| [&one, &two, &three].iter().all(|peers| peers.connected().len() == 2));
    assert_eq!(versions_of(&one, [2, 3]), [Some(7), Some(7)]);
    assert_eq!(versions_of(&three, [1, 2]), [Some(7), Some(7)]);
    say(&one, 3, b"and now");
    heard_from(&heard_by_three, 1, b"and now");
    say(&three, 2, b"so it is");
    heard_from(&heard_by_two, 3, b"so it is");
    [one, two, three].iter().for_each(|peers| peers.stop());
}

#[test]
fn nodes_without_a_common_version_are_refused_at_both_ends() {
    let folders = ALL.map(|_| tempfile::tempdir().unwrap());
    let listeners = ALL.map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [0, 1, 2].map(|at: usize| listeners[at].local_addr().unwrap());
    let [first, second, third] = listeners;
    drop(third);
    let (one, _) = node(Versions::OWN, (1, folders[0].path()), addresses, first);
    let later = Versions { oldest: 8, newest: 9 };
    let (two, _) = node(later, (2, folders[1].path()), addresses, second);
    for (peers, other, told) in [
        (&one, 2, "node 2 speaks versions 8 to 9, this node (1) versions 6 to 7. Upgrade node 1 "),
        (&two, 1, "node 1 speaks versions 6 to 7, this node (2) versions 8 to 9. Upgrade node 1 "),
    ] {
        let address = addresses[other as usize - 1].to_string();
        let why = peers.connect(NodeId(other), &address).map(|_| ()).unwrap_err().to_string();
        assert!(why.contains(told), "{why}");
        assert!(peers.connected().is_empty());
    }
    [one, two].iter().for_each(|peers| peers.stop());
}
