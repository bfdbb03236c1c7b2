//! Members that authenticate each other by certificates, over TCP.

#[path = "common/ports.rs"]
mod ports;

use futures::executor::block_on;
use meridian_host::clock::ClockBound;
use meridian_host::identity::OpenError;
use meridian_host::node::{Node, Options};
use meridian_host::trust::{Token, Trust};
use meridian_machine::NodeId;
use meridian_mvcc::{Key, Value};
use meridian_placement::Member;
use meridian_txn::{Begin, Mode, Outcome};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn members() -> Vec<Member> {
    let member = |(node, port): (u32, u16)| Member {
        node: NodeId(node),
        zone: String::new(),
        address: format!("127.0.0.1:{port}"),
    };
    (1..).zip(ports::free_ports(3)).map(member).collect()
}

fn open(
    node: u32,
    members: &[Member],
    folder: &Path,
    token: Option<Token>,
) -> Result<Arc<Node>, OpenError> {
    let clock = ClockBound::LOOPBACK;
    let trust = Trust::Certificates { token };
    let options =
        Options { node: NodeId(node), members: members.to_vec(), clock, trust, ..Options::alone() };
    Node::open(options.at(folder.join(node.to_string())))
}

fn put(node: &Node, key: &str) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let begin = Begin::new(Mode::ReadWrite);
        let committed =
            node.database("postgres").ok_or("no database".to_owned()).and_then(|database| {
                let mut transaction =
                    block_on(database.begin(begin)).map_err(|failure| failure.to_string())?;
                let value = Some(Value::from("here"));
                transaction.put(Key::from(key), value).map_err(|failure| failure.to_string())?;
                match block_on(transaction.commit()) {
                    Outcome::Committed { .. } => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            });
        match committed {
            Ok(()) => return,
            Err(why) => assert!(Instant::now() < end, "{why}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn token(folder: &Path) -> Token {
    std::fs::read_to_string(folder.join("1/certificates/token")).unwrap().parse().unwrap()
}

#[test]
fn members_get_certificates_with_the_first_ones_token_and_keep_them() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let first = open(1, &members, folder.path(), None).unwrap();
    assert!(first.token_file().is_some());
    let token = token(folder.path());
    let others: Vec<Arc<Node>> = (2..=3)
        .map(|node| open(node, &members, folder.path(), Some(token.clone())).unwrap())
        .collect();
    assert!(others.iter().all(|node| node.token_file().is_none()), "one authority is enough");
    for node in [&first, &others[0], &others[1]] {
        put(node, "k");
    }
    // A peer that does not speak TLS, or shows no certificate, is not heard; other connections go
    // on.
    for said in [&b"MERIDIAN\x03\0"[..], &[0xa5; 300], &[22, 3, 1, 255, 255]] {
        let mut identity_refusal = TcpStream::connect(&members[0].address).unwrap();
        identity_refusal.write_all(said).unwrap();
        identity_refusal.shutdown(std::net::Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        let _ = identity_refusal.read_to_end(&mut heard);
        assert!(!heard.starts_with(b"MERIDIAN"));
    }
    // The next incarnation needs no token. Private keys are readable by their owner alone.
    drop(others);
    let others: Vec<Arc<Node>> =
        (2..=3).map(|node| open(node, &members, folder.path(), None).unwrap()).collect();
    put(&others[1], "k");
    let mut kept = Vec::new();
    only_its_owner_may_read(folder.path(), folder.path(), &mut kept);
    for file in [
        "1/identity",
        "1/lock",
        "1/certificates/ca.key",
        "1/certificates/token",
        "2/certificates/node.key",
    ] {
        assert!(kept.contains(&file.to_owned()), "{file} is missing among {kept:?}");
    }
    for file in ["3/log/log-0000000", "3/log/lock", "3/store/store.redb"] {
        assert!(kept.iter().any(|kept| kept.starts_with(file)), "{file} is missing among {kept:?}");
    }
}

/// Checks the modes of everything in a folder, and collects the paths below the root.
fn only_its_owner_may_read(root: &Path, folder: &Path, kept: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // A spare file that has become a segment meanwhile.
        let Ok(found) = std::fs::metadata(&path) else { continue };
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.permissions().mode() & 0o777, expected, "{}", path.display());
        kept.push(path.strip_prefix(root).unwrap().display().to_string());
        if found.is_dir() {
            only_its_owner_may_read(root, &path, kept);
        }
    }
}

#[test]
fn a_missing_or_wrong_token_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let first = open(1, &members, folder.path(), None).unwrap();
    let wrong = Token { secret: [7; 16], ..token(folder.path()) };
    let error = open(2, &members, folder.path(), Some(wrong)).map(drop).unwrap_err().to_string();
    assert!(error.contains("the token is not the cluster's"), "{error}");
    // The other two nodes make an authority each: none of the three accepts another.
    let second = open(2, &members, folder.path(), None).unwrap();
    let plain = Options {
        trust: Trust::Loopback,
        node: NodeId(3),
        members: members.clone(),
        ..Options::loopback()
    };
    let third = Node::open(plain.at(folder.path().join("3"))).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    for node in [&first, &second, &third] {
        assert_eq!(node.status().to_meet.len(), 2);
    }
    drop(second);
    let error = open(2, &members, folder.path(), Some(token(folder.path())))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("another authority") && error.contains("certificates"), "{error}");
    // Without that folder, node 2 gets a certificate, and so does node 3: then they form a cluster.
    std::fs::remove_dir_all(folder.path().join("2/certificates")).unwrap();
    drop(third);
    let let_in = |node| open(node, &members, folder.path(), Some(token(folder.path()))).unwrap();
    let nodes = [let_in(2), let_in(3)];
    put(&first, "k");
    put(&nodes[1], "k");
}

#[test]
fn a_certificate_speaks_for_one_node() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let first = open(1, &members, folder.path(), None).unwrap();
    let second = open(2, &members, folder.path(), Some(token(folder.path()))).unwrap();
    drop(second);
    // Node 3 shows node 2's certificate.
    let third = folder.path().join("3/certificates");
    std::fs::create_dir_all(&third).unwrap();
    for file in ["ca.crt", "node.crt", "node.key"] {
        std::fs::copy(folder.path().join("2/certificates").join(file), third.join(file)).unwrap();
    }
    let error = open(3, &members, folder.path(), None).map(drop).unwrap_err().to_string();
    assert!(error.contains("not the certificate of node-3"), "{error}");
    std::fs::write(third.join("node.crt"), "nonsense").unwrap();
    let error = open(3, &members, folder.path(), None).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    drop(first);
}
