//! A TCP proxy between nodes, which can delay or cut each direction between two nodes.
//!
//! A node reaches another through that one's proxy. The proxy reads the calling node from the first
//! bytes of its connection (its hello: the sender's number at byte 26), and passes them on
//! unchanged. In a TLS connection these bytes are not readable: it is left alone, and its nodes can
//! only be killed and stopped.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const HELLO_BYTES: usize = 42;
const FROM: usize = 26;
/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 22;

/// One direction between two nodes.
#[derive(Debug, Default)]
pub struct Link {
    cut: AtomicBool,
    delay_ms: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    /// Cuts or restores the link. Open connections are closed.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Relaxed);
        if cut {
            self.shut();
        }
    }

    /// Closes open connections; new ones may be opened.
    pub fn shut(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        open.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Delays each piece of data by `ms` milliseconds.
    pub fn delay(&self, ms: u64) {
        self.delay_ms.store(ms, Relaxed);
    }
}

/// Accepts connections for a node and forwards them, with a link for each calling node, by its
/// place.
pub fn stand(listener: TcpListener, to: SocketAddr, links: Vec<Arc<Link>>) {
    std::thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let links = links.clone();
            std::thread::spawn(move || {
                // The error of a failed connection needs no handling.
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
