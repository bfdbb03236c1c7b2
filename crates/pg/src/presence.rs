//! The presence of a client while its statement computes: nothing reads its connection then.

use std::io;
use tokio::net::TcpStream;

#[cfg(target_os = "linux")]
mod socket {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use tokio::net::TcpStream;

    pub(super) struct Socket(OwnedFd);

    impl Socket {
        pub(super) fn of(stream: &TcpStream) -> io::Result<Socket> {
            Ok(Socket(stream.as_fd().try_clone_to_owned()?))
        }

        pub(super) fn is_closed(&self) -> bool {
            // Closed by the other side, also behind bytes that have not been read.
            let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            let mut polled = [PollFd::new(&self.0, PollFlags::RDHUP)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(closed)
        }
    }
}

/// Other systems do not tell that bytes which have not been read are the last ones.
#[cfg(not(target_os = "linux"))]
mod socket {
    use std::io;
    use tokio::net::TcpStream;

    pub(super) struct Socket;

    impl Socket {
        pub(super) fn of(_: &TcpStream) -> io::Result<Socket> {
            Ok(Socket)
        }

        pub(super) fn is_closed(&self) -> bool {
            false
        }
    }
}

/// A client's connection.
pub(crate) struct Presence(socket::Socket);

impl Presence {
    /// Fails if there are too many open files.
    pub(crate) fn of(stream: &TcpStream) -> io::Result<Presence> {
        Ok(Presence(socket::Socket::of(stream)?))
    }

    /// True if the client has closed the connection.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_closed()
    }
}
