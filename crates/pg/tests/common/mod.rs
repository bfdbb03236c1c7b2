//! A server over a database in memory, and a client that sends bytes.
#![allow(dead_code)]

mod memory;

use bytes::{Buf, BufMut, BytesMut};
use meridian_pg::{Counters, Databases, Options, Server};
use meridian_sql::{Engine, QueryMemory};
use meridian_systems::Protocol;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;

pub use memory::Memory;

/// The time limit of any step of these tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Databases of a test.
pub struct Engines {
    pub all: Vec<Arc<Engine>>,
    /// True if the server looks after their statistics, at times of its own.
    pub analyzes: bool,
}

impl Databases for Engines {
    fn engine<'a>(
        &'a self,
        name: &'a str,
    ) -> futures::future::BoxFuture<'a, Result<Option<Arc<Engine>>, String>> {
        let found = self.all.iter().find(|engine| engine.name() == name).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn names(&self) -> Vec<String> {
        self.all.iter().map(|engine| engine.name().to_owned()).collect()
    }

    fn open_engines(&self) -> Vec<Arc<Engine>> {
        if self.analyzes { self.all.clone() } else { Vec::new() }
    }
}

/// A running server; it stops on request, or when dropped.
pub struct Running {
    pub address: SocketAddr,
    pub counters: Arc<Counters>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

pub fn local() -> Options {
    Options { listen: "127.0.0.1:0".parse().expect("an address"), ..Options::default() }
}

pub async fn start() -> Running {
    start_with(local()).await
}

pub async fn start_with(options: Options) -> Running {
    let engines = ["meridian", "postgres"]
        .map(|name| Arc::new(Engine::new(name, Arc::new(Memory::default()))));
    start_over(options, Arc::new(Engines { all: engines.into(), analyzes: false })).await
}

/// Starts a server over databases of a protocol.
pub async fn start_by(protocol: &'static Protocol) -> Running {
    let engines = ["meridian", "postgres"]
        .map(|name| Arc::new(Engine::new(name, Arc::new(Memory::of(protocol)))));
    start_over(local(), Arc::new(Engines { all: engines.into(), analyzes: false })).await
}

/// Starts a server over one database in memory, with this limit of the memory of queries.
pub async fn start_with_memory(memory: Arc<QueryMemory>) -> Running {
    let engine = Engine::new("meridian", Arc::new(Memory::default())).with_memory(memory);
    start_over(local(), Arc::new(Engines { all: vec![Arc::new(engine)], analyzes: false })).await
}

pub async fn start_over(options: Options, databases: Arc<dyn Databases>) -> Running {
    let server = Server::bind(options, databases).await.expect("binds");
    let address = server.local_addr().expect("an address");
    let counters = server.counters();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(server.serve(async move {
        let _ = stopped.await;
    }));
    Running { address, counters, stop: Some(stop), task }
}

impl Running {
    pub fn begin_stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    pub async fn stopped(self) {
        timeout(PATIENCE, self.task).await.expect("the server stops").expect("without a panic");
    }

    pub async fn client(&self) -> tokio_postgres::Client {
        self.client_of("user=root dbname=meridian").await
    }

    pub async fn client_of(&self, config: &str) -> tokio_postgres::Client {
        let config = format!("host=127.0.0.1 port={} {config}", self.address.port());
        let (client, connection) =
            tokio_postgres::connect(&config, tokio_postgres::NoTls).await.expect("connects");
        tokio::spawn(connection);
        client
    }

    /// Opens a connection, and sends nothing.
    pub async fn raw(&self) -> Raw {
        let stream = TcpStream::connect(self.address).await.expect("connects");
        Raw { stream, input: BytesMut::new() }
    }

    /// Opens a session by hand.
    pub async fn session(&self) -> Raw {
        let mut raw = self.raw().await;
        raw.open(&[("user", "root"), ("database", "meridian")]).await;
        raw.until(b'Z').await;
        raw
    }
}

/// A message of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.tag as char, String::from_utf8_lossy(&self.body))
    }
}

impl Message {
    /// Returns a field of an error or notice.
    pub fn field(&self, kind: u8) -> Option<String> {
        self.body
            .split(|&byte| byte == 0)
            .find(|field| field.first() == Some(&kind))
            .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
    }

    /// Returns the values of a row.
    pub fn row(&self) -> Vec<Option<Vec<u8>>> {
        let mut body = &self.body[..];
        (0..body.get_u16())
            .map(|_| {
                let length = usize::try_from(body.get_i32()).ok()?;
                Some(body.copy_to_bytes(length).to_vec())
            })
            .collect()
    }
}

/// A client that sends bytes.
pub struct Raw {
    pub stream: TcpStream,
    input: BytesMut,
}

/// Returns a message of a client.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.put_u32(body.len() as u32 + 4);
    bytes.put_slice(body);
    bytes
}

pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"].concat())
}

pub fn parse(name: &str, text: &str) -> Vec<u8> {
    message(b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"].concat())
}

/// Returns a Bind of text parameters; the results come as text.
pub fn bind(portal: &str, statement: &str, values: &[&str]) -> Vec<u8> {
    let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0"].concat();
    body.put_u16(values.len() as u16);
    for value in values {
        body.put_u32(value.len() as u32);
        body.put_slice(value.as_bytes());
    }
    body.put_u16(0);
    message(b'B', &body)
}

pub fn execute(portal: &str, limit: u32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &limit.to_be_bytes()].concat())
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

impl Raw {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("is sent");
    }

    pub async fn open(&mut self, parameters: &[(&str, &str)]) {
        let mut body = Vec::new();
        body.put_u32(196_608);
        for (name, value) in parameters {
            body.put_slice(&[name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        body.put_u8(0);
        let mut bytes = Vec::new();
        bytes.put_u32(body.len() as u32 + 4);
        bytes.put_slice(&body);
        self.send(bytes).await;
    }

    /// Returns the next message; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            if self.input.len() >= 5 {
                let length =
                    u32::from_be_bytes(self.input[1..5].try_into().expect("four bytes")) as usize;
                if self.input.len() > length {
                    let frame = self.input.split_to(length + 1);
                    return Some(Message { tag: frame[0], body: frame[5..].to_vec() });
                }
            }
            match timeout(PATIENCE, self.stream.read_buf(&mut self.input))
                .await
                .expect("the server answers")
            {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Returns the messages up to the first of this kind, which is the last returned.
    pub async fn until(&mut self, tag: u8) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            match self.next().await {
                Some(message) => messages.push(message),
                None => panic!("the connection ended before {}; came: {messages:?}", tag as char),
            }
            if messages.last().is_some_and(|message| message.tag == tag) {
                return messages;
            }
        }
    }

    /// Returns all messages up to the end of the connection.
    pub async fn rest(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        messages
    }
}

/// Returns the kinds of these messages as one word.
pub fn tags(messages: &[Message]) -> String {
    messages.iter().map(|message| message.tag as char).collect()
}

/// Sends messages, and returns the answer up to ReadyForQuery.
pub async fn say(raw: &mut Raw, bytes: impl AsRef<[u8]>) -> Vec<Message> {
    raw.send(bytes).await;
    raw.until(b'Z').await
}

/// Returns the status of ReadyForQuery.
pub fn status(answer: &[Message]) -> u8 {
    answer.last().expect("ready").body[0]
}

/// Returns the SQLSTATEs of the errors.
pub fn codes(answer: &[Message]) -> Vec<String> {
    answer
        .iter()
        .filter(|message| message.tag == b'E')
        .filter_map(|error| error.field(b'C'))
        .collect()
}

/// Returns the first column of a statement's rows, or its SQLSTATE; fails if the statement waits.
pub async fn first(client: &tokio_postgres::Client, sql: &str) -> Vec<String> {
    let answer = timeout(PATIENCE, client.simple_query(sql)).await.expect("does not wait");
    match answer {
        Ok(messages) => messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
            .collect(),
        Err(error) => {
            vec![error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())]
        }
    }
}
