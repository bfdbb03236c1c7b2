//! etcd, the common reference for the cost of a replicated write: three members, and clients that
//! put.
//!
//! It is called by gRPC over HTTP/2, as by its own clients: its JSON gateway is slower. This file
//! has as much of gRPC and protobuf as a put needs.

use crate::machine::{Used, used};
use crate::pgbench::{Outcome, percentile};
use crate::server::{ends_with_us, free_port};
use bytes::Bytes;
use h2::client::SendRequest;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const READY_WITHIN: Duration = Duration::from_secs(30);
const PUT: &str = "/etcdserverpb.KV/Put";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// Three members on this machine.
pub struct Etcd {
    members: Vec<Child>,
    ports: Vec<u16>,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

impl Etcd {
    /// Returns the version; fails with the package to install, if etcd is missing.
    pub fn version() -> Result<String, String> {
        let output = Command::new("etcd").arg("--version").output();
        let output =
            output.map_err(|_| "etcd is not installed (Debian: etcd-server)".to_owned())?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
    }

    /// Starts the members with their defaults, which sync each entry of the log.
    pub fn start(folder: &Path) -> Result<Etcd, String> {
        let url = |port: &u16| format!("http://127.0.0.1:{port}");
        let ports = |_| Ok((free_port()?, free_port()?));
        let ports = (0..3).map(ports).collect::<Result<Vec<(u16, u16)>, String>>()?;
        let all: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(at, (_, peer))| format!("m{at}={}", url(peer)))
            .collect();
        let mut etcd =
            Etcd { members: Vec::new(), ports: ports.iter().map(|(client, _)| *client).collect() };
        for (at, (client, peer)) in ports.iter().enumerate() {
            let mut command = Command::new("etcd");
            let data = folder.join(format!("etcd{at}"));
            command.arg("--name").arg(format!("m{at}")).arg("--data-dir").arg(data);
            for (flag, url) in [
                ("--listen-client-urls", url(client)),
                ("--advertise-client-urls", url(client)),
                ("--listen-peer-urls", url(peer)),
                ("--initial-advertise-peer-urls", url(peer)),
                ("--initial-cluster", all.join(",")),
            ] {
                command.args([flag, &url]);
            }
            ends_with_us(&mut command, libc::SIGKILL);
            let child =
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            etcd.members.push(child.map_err(|error| format!("cannot run etcd: {error}"))?);
        }
        Ok(etcd)
    }

    /// Returns the resources that its processes have used.
    pub fn used(&self) -> Used {
        used(&self.members.iter().map(Child::id).collect::<Vec<_>>())
    }

    /// Puts values of `bytes` bytes at random keys below `keys`; each client runs one put after the
    /// other, over a connection of its own to the leader.
    pub fn put(
        &self,
        clients: u32,
        seconds: u32,
        keys: u32,
        bytes: usize,
    ) -> Result<Outcome, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| e.to_string())?;
        runtime.block_on(async {
            let port = self.leader().await?;
            let end = Instant::now() + Duration::from_secs(u64::from(seconds));
            let client = |number| tokio::spawn(client(port, number, end, keys, bytes));
            let clients: Vec<_> = (0..clients).map(client).collect();
            let mut latencies: Vec<u64> = Vec::new();
            for client in clients {
                latencies.extend(client.await.map_err(|error| error.to_string())??);
            }
            latencies.sort_unstable();
            let transactions = latencies.len() as u64;
            Ok(Outcome {
                tps: transactions as f64 / f64::from(seconds),
                transactions,
                failed: 0,
                p50_ms: percentile(&latencies, 0.5).unwrap_or_default(),
                p99_ms: percentile(&latencies, 0.99).unwrap_or_default(),
            })
        })
    }

    /// Returns the port of the leader, as soon as there is one.
    async fn leader(&self) -> Result<u16, String> {
        let end = Instant::now() + READY_WITHIN;
        let mut why = String::new();
        while Instant::now() < end {
            for port in &self.ports {
                match status(*port).await {
                    Ok((member, leader)) if member == leader && leader != 0 => return Ok(*port),
                    Ok(_) => {}
                    Err(error) => why = error,
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(format!("no etcd leads after {READY_WITHIN:?}: {why}"))
    }
}

async fn client(
    port: u16,
    number: u32,
    end: Instant,
    keys: u32,
    bytes: usize,
) -> Result<Vec<u64>, String> {
    let mut connection = connect(port).await?;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(u64::from(number));
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let key = format!("k{:08}", rng.random_range(0..keys));
        let mut message = Vec::with_capacity(bytes + 20);
        field(&mut message, 1, key.as_bytes());
        field(&mut message, 2, &vec![b'x'; bytes]);
        let began = Instant::now();
        call(&mut connection, PUT, &message).await?;
        latencies.push(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    Ok(latencies)
}

/// Returns the ids of the responding member and of the leader.
async fn status(port: u16) -> Result<(u64, u64), String> {
    let answer = call(&mut connect(port).await?, STATUS, &[]).await?;
    let header =
        fields(&answer).find_map(|(number, value)| if number == 1 { value.bytes() } else { None });
    let number = |of: &[u8], wanted| {
        fields(of).find_map(|(number, value)| value.number().filter(|_| number == wanted))
    };
    Ok((number(header.unwrap_or_default(), 2).unwrap_or(0), number(&answer, 4).unwrap_or(0)))
}

async fn connect(port: u16) -> Result<SendRequest<Bytes>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("etcd at port {port}: {error}");
    let socket =
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| wrong(&error))?;
    socket.set_nodelay(true).map_err(|error| wrong(&error))?;
    let (sender, connection) =
        h2::client::handshake(socket).await.map_err(|error| wrong(&error))?;
    // It ends with its sender; the caller of a request receives the errors.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Makes one unary gRPC call.
async fn call(
    connection: &mut SendRequest<Bytes>,
    path: &str,
    message: &[u8],
) -> Result<Vec<u8>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{path}: {error}");
    std::future::poll_fn(|context| connection.poll_ready(context))
        .await
        .map_err(|error| wrong(&error))?;
    let request = http::Request::post(format!("http://etcd{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|error| wrong(&error))?;
    let (answer, mut stream) =
        connection.send_request(request, false).map_err(|error| wrong(&error))?;
    let length = u32::try_from(message.len()).map_err(|error| wrong(&error))?;
    let frame = [&[0][..], &length.to_be_bytes(), message].concat();
    stream.send_data(frame.into(), true).map_err(|error| wrong(&error))?;
    let mut body = answer.await.map_err(|error| wrong(&error))?.into_body();
    let mut bytes = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(|error| wrong(&error))?;
        bytes.extend_from_slice(&part);
        // It fails only with the stream, whose error the next read returns.
        let _ = body.flow_control().release_capacity(part.len());
    }
    let trailers = body.trailers().await.map_err(|error| wrong(&error))?.unwrap_or_default();
    match trailers.get("grpc-status").map(|status| status.as_bytes()) {
        Some(b"0") => Ok(bytes.split_off(5.min(bytes.len()))),
        status => Err(wrong(&format!("status {:?}", status.map(String::from_utf8_lossy)))),
    }
}

// ------------------------------------------------------------------------
// protobuf

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a length-delimited field.
fn field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(self) -> Option<u64> {
        if let Field::Number(number) = self { Some(number) } else { None }
    }

    fn bytes(self) -> Option<&'a [u8]> {
        if let Field::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for at in 0..10 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << (7 * at);
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Iterates over the number and bytes fields of a message, up to the first of another kind.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let tag = take_varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Field::Number(take_varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Field::Bytes(value)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_and_garbage_ends_them() {
        let mut message = Vec::new();
        field(&mut message, 1, b"key");
        varint(&mut message, 4 << 3);
        varint(&mut message, 1 << 40);
        let read: Vec<_> = fields(&message).collect();
        assert_eq!(read, [(1, Field::Bytes(b"key")), (4, Field::Number(1 << 40))]);
        assert_eq!(fields(&[0xff; 30]).count(), 0);
        assert_eq!(fields(&[0x0a, 0x09, b'x']).count(), 0, "a field longer than the message");
        assert_eq!(fields(&message[..message.len() - 1]).count(), 1, "cut off");
    }
}
