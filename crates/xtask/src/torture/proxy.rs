//! What stands between nodes: a TCP proxy that can be slow, deaf or shut, for each direction
//! between two nodes.
//!
//! A node reaches another through that one's proxy. Who calls is read from the first bytes of its
//! connection (its hello: the sender's number at byte 26); they are passed on unchanged. Of a
//! connection that begins with TLS nobody can read that: it is left alone, and its nodes are killed
//! and stopped only.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const HELLO_BYTES: usize = 42;
const FROM: usize = 26;
/// How a TLS handshake begins.
const HANDSHAKE: u8 = 22;

/// One direction between two nodes.
#[derive(Debug, Default)]
pub struct Link {
    cut: AtomicBool,
    delay_ms: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    /// Nothing gets through, or things do again. What is open is shut.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Relaxed);
        if cut {
            self.shut();
        }
    }

    /// Shuts what is open; it may be opened again.
    pub fn shut(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        open.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Each piece takes so much longer.
    pub fn delay(&self, ms: u64) {
        self.delay_ms.store(ms, Relaxed);
    }
}

/// Stands before a node, and leads to it; a link for each node that calls, by its place.
pub fn stand(listener: TcpListener, to: SocketAddr, links: Vec<Arc<Link>>) {
    std::thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let links = links.clone();
            std::thread::spawn(move || {
                // A connection that fails is a connection that failed.
                let _ = carry(caller, to, &links);
            });
        }
    });
}

fn carry(mut caller: TcpStream, to: SocketAddr, links: &[Arc<Link>]) -> std::io::Result<()> {
    let mut hello = [0; HELLO_BYTES];
    caller.read_exact(&mut hello)?;
    let number =
        u32::from_le_bytes([hello[FROM], hello[FROM + 1], hello[FROM + 2], hello[FROM + 3]])
            as usize;
    let undisturbed = Arc::default();
    let link = match hello[0] {
        HANDSHAKE => &undisturbed,
        _ => match number.checked_sub(1).and_then(|place| links.get(place)) {
            Some(link) => link,
            None => return Ok(()),
        },
    };
    if link.cut.load(Relaxed) {
        return Ok(());
    }
    let mut callee = TcpStream::connect(to)?;
    callee.set_nodelay(true)?;
    caller.set_nodelay(true)?;
    callee.write_all(&hello)?;
    let mut open = link.open.lock().unwrap_or_else(PoisonError::into_inner);
    open.extend([caller.try_clone()?, callee.try_clone()?]);
    drop(open);
    let (mut back_from, mut back_to) = (callee.try_clone()?, caller.try_clone()?);
    std::thread::spawn(move || drop(std::io::copy(&mut back_from, &mut back_to)));
    let mut piece = vec![0; 64 << 10];
    loop {
        let length = caller.read(&mut piece)?;
        let delay_ms = link.delay_ms.load(Relaxed);
        if delay_ms > 0 {
            std::thread::sleep(Duration::from_millis(delay_ms));
        }
        if length == 0 || link.cut.load(Relaxed) {
            callee.shutdown(Shutdown::Both)?;
            return Ok(());
        }
        callee.write_all(&piece[..length])?;
    }
}
