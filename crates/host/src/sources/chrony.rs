//! chrony: chronyd's bound on the system clock's error, over its command protocol (version 6, the
//! request of `chronyc tracking`).
//!
//! ```text
//!   request: 6 1 0 0  33:u16  attempt:u16  sequence:u32  …      104 bytes, as long as the reply
//!   reply:   6 2 0 0  33:u16  5:u16  status:u16 …  sequence:u32 …  tracking        big-endian
//! ```
//!
//! The bound is the sum of the remaining correction, the root dispersion, and half the root delay.

use super::{Source, Statement, Status, system_clock};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The socket of chronyd, for processes of its group.
const SOCKET: &str = "/run/chrony/chronyd.sock";
/// The port of chronyd, for all processes of the machine.
const PORT: u16 = 323;
const PATIENCE: Duration = Duration::from_millis(200);
const BYTES: usize = 104;
const TRACKING: u16 = 33;
const TRACKING_ANSWER: u16 = 5;
const NOT_SYNCHRONISED: u16 = 3;

/// chronyd as a source, with the connection that worked last.
pub struct Chrony {
    socket: PathBuf,
    address: SocketAddr,
    line: Option<Line>,
    sequence: u32,
}

enum Line {
    Socket(UnixDatagram, PathBuf),
    Port(UdpSocket),
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Line::Socket(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Default for Chrony {
    fn default() -> Self {
        Chrony::at(Path::new(SOCKET), SocketAddr::from(([127, 0, 0, 1], PORT)))
    }
}

impl Line {
    /// Opens a named socket beside chronyd's own: chronyd replies to a socket with a name only.
    fn to_socket(socket: &Path) -> io::Result<Line> {
        let own = socket.with_file_name(format!("meridian-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&own);
        let line = UnixDatagram::bind(&own)?;
        let line = Line::Socket(line, own);
        let Line::Socket(datagrams, own) = &line else {
            unreachable!("invariant: it was just made")
        };
        // chronyd runs as another user.
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(own, std::fs::Permissions::from_mode(0o666))?;
        datagrams.connect(socket)?;
        datagrams.set_read_timeout(Some(PATIENCE))?;
        Ok(line)
    }

    fn to_port(address: SocketAddr) -> io::Result<Line> {
        let line = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        line.connect(address)?;
        line.set_read_timeout(Some(PATIENCE))?;
        Ok(Line::Port(line))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Line::Socket(line, _) => line.send(bytes),
            Line::Port(line) => line.send(bytes),
        }
    }

    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Line::Socket(line, _) => line.recv(bytes),
            Line::Port(line) => line.recv(bytes),
        }
    }
}

impl Chrony {
    /// Returns a source for a chronyd at another socket and address.
    pub fn at(socket: &Path, address: SocketAddr) -> Chrony {
        Chrony { socket: socket.into(), address, line: None, sequence: 0 }
    }

    fn exchange(&mut self, line: &Line) -> io::Result<Tracking> {
        self.sequence = self.sequence.wrapping_add(1);
        line.send(&question(self.sequence))?;
        let mut bytes = [0; 2 * BYTES];
        // The reply to an earlier request may still arrive.
        for _ in 0..4 {
            let length = line.receive(&mut bytes)?;
            match tracking(&bytes[..length], self.sequence) {
                Some(answer) => return answer.map_err(io::Error::other),
                None => continue,
            }
        }
        Err(io::Error::other("its replies are to other requests"))
    }

    /// Requests the state of the system clock from chronyd.
    pub fn tracking(&mut self) -> Result<Tracking, String> {
        if let Some(line) = self.line.take()
            && let Ok(answer) = self.exchange(&line)
        {
            self.line = Some(line);
            return Ok(answer);
        }
        let socket = match Line::to_socket(&self.socket) {
            Ok(line) => match self.exchange(&line) {
                Ok(answer) => {
                    self.line = Some(line);
                    return Ok(answer);
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        let line = Line::to_port(self.address).map_err(|error| error.to_string())?;
        match self.exchange(&line) {
            Ok(answer) => {
                self.line = Some(line);
                Ok(answer)
            }
            Err(port) => Err(format!(
                "chronyd does not answer at {} ({}) nor at {} ({})",
                self.socket.display(),
                words(&socket),
                self.address,
                words(&port)
            )),
        }
    }
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "no permission: its group is _chrony or chrony".into(),
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::ConnectionRefused => "no process listens".into(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer".into(),
        _ => error.to_string(),
    }
}

impl Source for Chrony {
    fn ask(&mut self) -> Result<Statement, String> {
        let said = self.tracking()?;
        if !said.synchronised {
            return Err("chronyd is not synchronised".into());
        }
        Ok(system_clock(said.max_error_ns, Status::Synchronised))
    }
}

/// The state of the system clock, as chronyd reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// True if chronyd is synchronised to a server.
    pub synchronised: bool,
    /// Bound on the system clock's error, in nanoseconds.
    pub max_error_ns: u64,
}

fn question(sequence: u32) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&[6, 1, 0, 0]);
    bytes[4..6].copy_from_slice(&TRACKING.to_be_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_be_bytes());
    bytes
}

/// Decodes the reply to a request. Returns `None` if it is the reply to another one.
fn tracking(bytes: &[u8], sequence: u32) -> Option<Result<Tracking, String>> {
    let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    if word(16)? != sequence {
        return None;
    }
    Some((|| {
        let short = || "chronyd's answer is too short".to_owned();
        if bytes[..2] != [6, 2] {
            return Err(format!(
                "chronyd speaks version {} of its protocol, this version knows 6",
                bytes[0]
            ));
        }
        let status = half(8).ok_or_else(short)?;
        if status != 0 {
            return Err(format!("chronyd refuses to answer (status {status})"));
        }
        if half(4) != Some(TRACKING) || half(6) != Some(TRACKING_ANSWER) {
            return Err("chronyd answers another question".into());
        }
        let leap = half(54).ok_or_else(short)?;
        let seconds = |at: usize| word(at).map(float).ok_or_else(short);
        let (correction, delay, dispersion) = (seconds(68)?, seconds(92)?, seconds(96)?);
        let max_error = correction.abs() + dispersion + delay / 2.0;
        if !max_error.is_finite() || max_error < 0.0 {
            return Err(format!("chronyd names an error of {max_error} s"));
        }
        // More than three centuries saturate.
        Ok(Tracking {
            synchronised: leap != NOT_SYNCHRONISED,
            max_error_ns: (max_error * 1e9).ceil() as u64,
        })
    })())
}

/// Decodes chrony's floating-point format: 7 bits of exponent and 25 of coefficient, both signed.
fn float(bits: u32) -> f64 {
    let signed = bits as i32;
    let exponent = (signed >> 25) - 25;
    let coefficient = (signed << 7) >> 7;
    f64::from(coefficient) * f64::from(exponent).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a reply; in seconds: correction, root delay, root dispersion.
    fn answer(question: &[u8], leap: u16, [correction, delay, dispersion]: [u32; 3]) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        bytes[..2].copy_from_slice(&[6, 2]);
        bytes[4..6].copy_from_slice(&TRACKING.to_be_bytes());
        bytes[6..8].copy_from_slice(&TRACKING_ANSWER.to_be_bytes());
        bytes[16..20].copy_from_slice(&question[8..12]);
        bytes[54..56].copy_from_slice(&leap.to_be_bytes());
        for (at, bits) in [(68, correction), (92, delay), (96, dispersion)] {
            bytes[at..at + 4].copy_from_slice(&bits.to_be_bytes());
        }
        bytes
    }

    /// Encodes coefficient × 2^exponent in chrony's format.
    fn bits(coefficient: i32, exponent: i32) -> u32 {
        (((exponent + 25) << 25) | (coefficient & 0x1ff_ffff)) as u32
    }

    #[test]
    fn its_floats_are_what_they_mean() {
        for (coefficient, exponent, value) in
            [(1, 0, 1.0), (-3, -1, -1.5), (16_777_215, -25, 0.499_999_970_197_677_6)]
        {
            assert_eq!(float(bits(coefficient, exponent)), value);
        }
        assert_eq!(float(0), 0.0);
    }

    #[test]
    fn an_answer_bounds_the_clock_and_garbage_does_not() {
        let asked = question(7);
        // A quarter of a millisecond to correct, 1/512 s of delay, 1/1024 s of dispersion.
        let good = answer(&asked, 0, [bits(-1, -12), bits(1, -9), bits(1, -10)]);
        let expected = Tracking { synchronised: true, max_error_ns: 2_197_266 };
        assert_eq!(tracking(&good, 7), Some(Ok(expected)));
        assert_eq!(tracking(&good, 8), None);
        let lost = tracking(&answer(&asked, 3, [0; 3]), 7).unwrap().unwrap();
        assert!(!lost.synchronised);
        for length in 0..good.len() {
            assert!(
                !matches!(tracking(&good[..length], 7), Some(Ok(_))) || length >= 100,
                "{length}"
            );
        }
        for (at, value, why) in [
            (0, 5, "version 5"),
            (9, 2, "refuses"),
            (7, 9, "another question"),
            (92, 0x81, "error of"),
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            let said = tracking(&bad, 7).unwrap();
            assert!(at == 92 || said.clone().is_err_and(|said| said.contains(why)), "{said:?}");
        }
    }

    /// A mock of chronyd responds over its port and its socket.
    #[test]
    fn chronyd_is_asked_through_its_socket_or_its_port() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("chronyd.sock");
        let port = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap();
        port.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut chrony = Chrony::at(&socket, address);
        let why = chrony.ask().unwrap_err();
        assert!(why.contains("no answer") && why.contains("chronyd.sock"), "{why}");

        let answers = std::thread::spawn(move || {
            let mut bytes = [0; 256];
            let mut answered = 0;
            let end = std::time::Instant::now() + Duration::from_secs(20);
            while answered < 3 && std::time::Instant::now() < end {
                if let Ok((length, from)) = port.recv_from(&mut bytes) {
                    // The first request gets garbage, the later ones garbage before the reply.
                    let _ = port.send_to(&[0xff; 30], from);
                    if answered > 0 {
                        port.send_to(&answer(&bytes[..length], 0, [0, 0, bits(1, -10)]), from)
                            .unwrap();
                    }
                    answered += 1;
                }
            }
        });
        let end = std::time::Instant::now() + Duration::from_secs(20);
        let said = loop {
            match chrony.ask() {
                Ok(said) => break said,
                Err(why) => assert!(std::time::Instant::now() < end, "{why}"),
            }
        };
        assert!((976_563..30_000_000).contains(&said.interval.half_width_ns()), "{said:?}");
        chrony.line = None;

        let door = UnixDatagram::bind(&socket).unwrap();
        let through_socket = std::thread::spawn(move || {
            let mut bytes = [0; 256];
            let (length, from) = door.recv_from(&mut bytes).unwrap();
            door.send_to(&answer(&bytes[..length], 3, [0; 3]), from.as_pathname().unwrap())
                .unwrap();
        });
        assert!(chrony.ask().unwrap_err().contains("not synchronised"));
        through_socket.join().unwrap();
        drop(chrony);
        drop(answers); // The thread ends by itself.
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["chronyd.sock"]);
    }
}
