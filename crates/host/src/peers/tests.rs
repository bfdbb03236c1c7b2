//! Two nodes' links, over TCP.

use super::*;
use meridian_placement::{ClusterMembers, Member};
use std::sync::mpsc;

mod versions;

struct Received(Mutex<mpsc::Sender<(NodeId, Vec<u8>)>>);
impl Receive for Received {
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
    let member =
        |node| Member { node: NodeId(node), zone: String::new(), address: format!("{cluster}") };
    Identity::in_memory(NodeId(me), &ClusterMembers::new([1, 2].map(member)).unwrap()).unwrap()
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
        guard: PanicGuard::of_test(),
        queue_bytes: 64 << 20,
        frame_bytes: 16 << 20,
    };
    let clock = Arc::new(Clock::new(clock));
    (
        Peers::start(options, Some(listener), clock, Arc::new(Received(Mutex::new(sender))))
            .unwrap(),
        heard,
    )
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

impl Pair {
    /// Waits until both nodes are connected in both directions; before that, frames are dropped.
    fn meet(&self) {
        wait_until(|| [&self.one, &self.two].iter().all(|peers| peers.connected().len() == 1));
    }
}

fn wait_until(what: impl Fn() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(std::time::Instant::now() < end, "the condition never became true");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn frames_of_any_size_arrive_complete_and_in_order() {
    let pair = pair([7, 7]);
    pair.meet();
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

#[test]
fn a_frame_past_its_deadline_does_not_leave() {
    let pair = pair([7, 7]);
    pair.meet();
    pair.one.post(NodeId(2), Some(1), b"late".to_vec());
    pair.one.post(NodeId(2), Some(u64::MAX), b"in time".to_vec());
    pair.one.flush(NodeId(2));
    assert_eq!(pair.heard.recv_timeout(Duration::from_secs(20)).unwrap().1, b"in time");
    pair.one.stop();
    pair.two.stop();
}

#[test]
fn a_node_that_returns_with_another_disk_is_refused_and_told() {
    let pair = pair([7, 7]);
    pair.meet();
    pair.one.stop();
    let listener = TcpListener::bind(pair.one.address.unwrap()).unwrap();
    let (replaced, _) = start(1, identity(1, 7), ClockBound::LOOPBACK, pair.address, listener);
    let told = replaced.identity_refusal();
    wait_until(|| told.borrow().is_some());
    assert!(
        told.borrow().as_ref().unwrap().contains("node 2 remembers this node with another disk")
    );
    replaced.post(NodeId(2), None, b"vote for me".to_vec());
    replaced.flush(NodeId(2));
    assert!(replaced.connected().is_empty() && pair.two.connected().is_empty());
    assert!(pair.heard.recv_timeout(Duration::from_millis(50)).is_err());
    replaced.stop();
    pair.two.stop();
}

#[test]
fn another_cluster_or_version_is_refused_and_garbage_is_harmless() {
    for strangers in [pair([7, 8]), pair_on([7, 7], ClockBound::Cluster)] {
        std::thread::sleep(Duration::from_millis(50));
        assert!(strangers.one.connected().is_empty() && strangers.two.connected().is_empty());
        strangers.one.stop();
        strangers.two.stop();
    }

    let pair = pair([7, 7]);
    pair.meet();
    let mut garbage = TcpStream::connect(pair.address).unwrap();
    garbage.write_all(&[0xa5; 4096]).unwrap();
    let mut rest = Vec::new();
    let _ = garbage.read_to_end(&mut rest);
    assert!(rest.is_empty());
    let mut damaged = TcpStream::connect(pair.address).unwrap();
    damaged.write_all(&pair.one.hello(Versions::OWN, NodeId(2))).unwrap();
    damaged.write_all(&[1, 0, 0, 0, 9, 9, 9, 9, 5]).unwrap();
    let _ = damaged.read_to_end(&mut rest);
    pair.one.post(NodeId(2), None, b"still here".to_vec());
    pair.one.flush(NodeId(2));
    assert_eq!(pair.heard.recv_timeout(Duration::from_secs(20)).unwrap().1, b"still here");
    pair.one.stop();
    pair.two.stop();
}

/// More connections than may be authenticating, which send their hello slowly.
#[test]
fn unidentified_connections_do_not_disturb_identified_ones() {
    let pair = pair([7, 7]);
    pair.meet();
    let silent: Vec<TcpStream> =
        (0..unproven::MOST + 20).map(|_| TcpStream::connect(pair.address).unwrap()).collect();
    let mut last = silent.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(last.read(&mut [0]).unwrap(), 0, "there is no room for another connection");
    pair.one.post(NodeId(2), None, b"heard".to_vec());
    pair.one.flush(NodeId(2));
    assert_eq!(pair.heard.recv_timeout(Duration::from_secs(20)).unwrap().1, b"heard");
    // A byte now and then does not help, even the right one.
    let mut first = &silent[0];
    first.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut said = pair.one.hello(Versions::OWN, NodeId(2)).into_iter();
    while !matches!(first.read(&mut [0]), Ok(0)) {
        let byte = said.next().expect("it is closed before the hello is complete");
        let _ = first.write_all(&[byte]);
    }
    drop(silent);
    wait_until(|| pair.two.unproven.load(Ordering::Relaxed) == 0);
    pair.one.stop();
    pair.two.stop();
}
