//! The panic guard, which ends a node at once when the node's own code panics.
//!
//! A state machine that panicked in a step is in an unintended state. To step it again could
//! acknowledge what was not committed; to step it no more would leave a node that holds its leases
//! and serves no request. The same is true of a node without its log thread or its timers.
//!
//! ```text
//!   panic in a step, or on a thread of the node
//!     │  nothing is sent, persisted or stepped any more
//!     │  report ──▶ <data>/panic-<incarnation>.txt, standard error
//!     ├─ OnPanic::Exit ──▶ the process exits with EXIT_CODE: a server
//!     └─ OnPanic::Halt ──▶ the node closes, its sessions fail, the process goes on: a library
//! ```
//!
//! A panic in a session that is not stepping a machine concerns that session alone, and does not
//! reach the guard.

use meridian_machine::{Address, Incarnation, NodeId};
use parking_lot::Mutex;
use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::thread::JoinHandle;

/// Writes the last words of a process to stderr. Unlike `eprintln!`, it does not panic if they
/// cannot be written, because the disk of a redirected stderr is full.
pub fn say_last(words: &str) {
    let _ = writeln!(io::stderr(), "meridian: {words}"); // Nothing else can be done with it.
}

/// Exit code of a process whose node has panicked: an internal software error, as in `sysexits.h`.
pub const EXIT_CODE: i32 = 70;

/// The scope that ends when a node's own code panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The process exits with [`EXIT_CODE`]. For a process that runs one node and nothing else.
    Exit,
    /// The node halts: it sends and acknowledges nothing any more, and its sessions fail. For a
    /// process that has other nodes, or is an application.
    #[default]
    Halt,
}

/// The name of a machine in a report.
#[derive(Clone, Copy, Debug)]
pub struct MachineName {
    /// Its protocol.
    pub protocol: &'static str,
    /// Its address.
    pub address: Address,
}

/// An input of a machine, without its contents.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The boot time at which its batch was taken, in nanoseconds.
    pub boot_ns: u64,
    /// The kind of the input.
    pub what: &'static str,
    /// The sender of a message.
    pub from: Option<Address>,
}

/// The last inputs of a machine. Noting one costs a few stores.
#[derive(Debug)]
pub struct LastInputs {
    ring: [Option<Seen>; LastInputs::KEPT],
    noted: usize,
}

impl Default for LastInputs {
    fn default() -> Self {
        LastInputs { ring: [None; Self::KEPT], noted: 0 }
    }
}

impl LastInputs {
    const KEPT: usize = 16;

    /// Notes an input that the machine is about to take.
    #[inline]
    pub fn note(&mut self, boot_ns: u64, what: &'static str, from: Option<Address>) {
        self.ring[self.noted % Self::KEPT] = Some(Seen { boot_ns, what, from });
        self.noted += 1;
    }

    /// Returns the inputs, oldest first. The machine panicked during the last one.
    fn oldest_first(&self) -> impl Iterator<Item = &Seen> {
        let at = self.noted % Self::KEPT;
        self.ring[at..].iter().chain(&self.ring[..at]).flatten()
    }
}

thread_local! {
    /// The message and backtrace of this thread's last panic.
    static LAST_PANIC: RefCell<Option<(String, Backtrace)>> = const { RefCell::new(None) };
}

/// Installs a hook that records the last panic of every thread of this process for a report.
fn remember_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let found = (info.to_string(), Backtrace::force_capture());
            LAST_PANIC.with(|last| last.try_borrow_mut().map(|mut last| *last = Some(found)).ok());
            before(info);
        }));
    });
}

/// Ends a node when its own code panics.
pub struct PanicGuard {
    node: NodeId,
    incarnation: Incarnation,
    folder: Option<PathBuf>,
    then: OnPanic,
    halted: AtomicBool,
    why: Mutex<Option<String>>,
    close: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for PanicGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PanicGuard")
            .field("node", &self.node)
            .field("why", &self.why)
            .finish_non_exhaustive()
    }
}

impl PanicGuard {
    /// Returns the guard of a node in one of its incarnations. The report goes to the folder, if
    /// any.
    pub fn new(
        node: NodeId,
        incarnation: Incarnation,
        folder: Option<PathBuf>,
        then: OnPanic,
    ) -> Arc<Self> {
        remember_panics();
        let (halted, why, close) = (AtomicBool::new(false), Mutex::default(), OnceLock::new());
        Arc::new(PanicGuard { node, incarnation, folder, then, halted, why, close })
    }

    /// Returns a guard for a test of a part of a node.
    #[cfg(test)]
    pub(crate) fn of_test() -> Arc<Self> {
        PanicGuard::new(NodeId(1), Incarnation(1), None, OnPanic::Halt)
    }

    /// Sets the function that closes the node if it halts. It runs on a thread of its own, because
    /// it waits for other threads.
    pub fn close_by(self: &Arc<Self>, close: impl Fn() + Send + Sync + 'static) {
        let _ = self.close.set(Arc::new(close));
        if self.is_halted() {
            self.close_apart();
        }
    }

    /// True if the node has panicked: from then on it does nothing.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// Returns what panicked and the path of the report; `None` while the node runs.
    pub fn why(&self) -> Option<String> {
        self.why.lock().clone()
    }

    /// Starts a thread of the node. If the thread panics, the node ends.
    pub fn spawn(
        self: &Arc<Self>,
        name: impl Into<String>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let (guard, name) = (Arc::clone(self), name.into());
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                guard.end(&format!("its thread \"{name}\""), &*panic, None);
            }
        })
    }

    /// Ends the node after a panic in a machine's step. Returns only if the process goes on.
    pub fn machine_panicked(
        &self,
        machine: MachineName,
        panic: &(dyn Any + Send),
        inputs: &LastInputs,
    ) {
        let MachineName { protocol, address } = machine;
        let (database, shard) = (address.database.0, address.shard.0);
        let what = format!("its {protocol} machine of database {database}, shard {shard}");
        self.end(&what, panic, Some(inputs));
    }

    fn end(&self, what: &str, panic: &(dyn Any + Send), inputs: Option<&LastInputs>) {
        if self.halted.swap(true, Ordering::AcqRel) {
            return; // A panic after the first is a consequence of it.
        }
        let (said, trace) = LAST_PANIC.take().map_or_else(
            || (words(panic), String::new()),
            |(said, trace)| (said, trace.to_string()),
        );
        let report = self.report(what, &said, &trace, inputs);
        let path = self
            .folder
            .as_ref()
            .map(|folder| folder.join(format!("panic-{}.txt", self.incarnation.0)));
        let written = path.map(|path| match write_new(&path, &report) {
            Ok(()) => format!(" The report is {}.", path.display()),
            Err(error) => format!(" The report cannot be written to {}: {error}.", path.display()),
        });
        let what_ends = match self.then {
            OnPanic::Exit => "the process ends",
            OnPanic::Halt => "the node ends, and sends and acknowledges nothing any more",
        };
        // The hook's first line is the location.
        let first = said.lines().nth(1).unwrap_or(&said);
        let why = format!(
            "{}: {what} panicked ({first}); {what_ends}.{}",
            self.node,
            written.unwrap_or_default()
        );
        tracing::error!(%why, "a node panicked");
        say_last(&format!("{why}\n\n{report}"));
        *self.why.lock() = Some(why);
        match self.then {
            OnPanic::Exit => std::process::exit(EXIT_CODE),
            OnPanic::Halt => self.close_apart(),
        }
    }

    fn close_apart(&self) {
        let Some(close) = self.close.get().cloned() else { return };
        if let Err(error) = std::thread::Builder::new().name("halt".into()).spawn(move || close()) {
            tracing::error!(%error, "cannot start a thread to close a halted node: its sessions will not end");
        }
    }

    fn report(&self, what: &str, said: &str, trace: &str, inputs: Option<&LastInputs>) -> String {
        let thread = std::thread::current();
        let mut report = format!(
            "Meridian {}, node {}, life {}: {what} panicked on thread \"{}\".\n\n{said}\n\n{ADVICE}\n",
            env!("CARGO_PKG_VERSION"),
            self.node.0,
            self.incarnation.0,
            thread.name().unwrap_or("?"),
        );
        if let Some(inputs) = inputs {
            let _ = writeln!(
                report,
                "\nLast inputs, of {} in this life; the last one was being taken:",
                inputs.noted
            );
            for Seen { boot_ns, what, from } in inputs.oldest_first() {
                let from = from.map(|from| format!(" from {from}")).unwrap_or_default();
                let _ = writeln!(report, "  {:>16.6} s  {what}{from}", *boot_ns as f64 / 1e9);
            }
        }
        if !trace.is_empty() {
            let _ = writeln!(report, "\nStack:\n{trace}");
        }
        report
    }
}

const ADVICE: &str = "This is a defect of Meridian. What was acknowledged is in the log; nothing more was acknowledged.\n\
                      Start the node again: it recovers from its log. If it panics again in the same way, leave it stopped: the\n\
                      other members go on without it. Keep its data folder, and report the defect with this file.";

/// Returns the panic's message, if it is a string.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no words").to_owned()
}

fn write_new(path: &std::path::Path, report: &str) -> io::Result<()> {
    let mut file = crate::private::create(path)?;
    file.write_all(report.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Input;
    use crate::clock::boot_ns;
    use crate::node::{Node, Options};
    use crate::shard::MemberShard;
    use crate::timers::Wake;
    use futures::executor::block_on;
    use meridian_machine::ShardId;
    use meridian_mvcc::{Key, Value};
    use meridian_systems::locking::Locking;
    use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome};
    use std::any::Any;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;
    use std::sync::Weak;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn put(database: &Arc<dyn Database>, value: &str) -> Result<(), Failure> {
        let mut transaction = database.begin(Begin::new(Mode::ReadWrite)).await?;
        transaction.put(Key::from("k"), Some(Value::from(value)))?;
        match transaction.commit().await {
            Outcome::Committed { .. } => Ok(()),
            other => Err(Failure::Storage(format!("{other:?}"))),
        }
    }

    async fn get(database: &Arc<dyn Database>) -> Result<Option<Value>, Failure> {
        let mut transaction = database.begin(Begin::new(Mode::ReadWrite)).await?;
        transaction.get(&Key::from("k"), Lock::Shared).await
    }

    /// Makes one of the node's machines panic in a step, as on a violated invariant. Every database
    /// has one.
    fn break_a_machine(node: &Node) {
        let (_, system) = node
            .directory()
            .list()
            .into_iter()
            .next()
            .expect("a node has databases, \"system\" first");
        let member: Arc<dyn Any + Send + Sync> =
            system.copied(ShardId(0)).expect("its first shard has a member here");
        let member = member
            .downcast::<MemberShard<Locking>>()
            .expect("the member is of a group with a leader");
        member.post(Input::Call(Box::new(|_: &mut _, _, _: &mut _| {
            panic!("invariant: broken on purpose")
        })));
    }

    struct Trap;

    impl Wake for Trap {
        fn wake(self: Arc<Self>) {
            panic!("invariant: broken on purpose")
        }
    }

    /// Makes the node's timer thread panic.
    fn break_the_timers(node: &Node, trap: &Arc<Trap>) {
        let trap: Weak<dyn Wake> = Arc::<Trap>::downgrade(trap);
        node.resources().timers.wake_at(boot_ns(), trap);
    }

    /// The child process of the next test.
    #[test]
    #[ignore = "it ends its process"]
    fn a_process_that_breaks() {
        let (folder, what) = (std::env::var("FOLDER").unwrap(), std::env::var("BREAKS").unwrap());
        let node =
            Node::open(Options { on_panic: OnPanic::Exit, ..Options::alone().at(folder) }).unwrap();
        block_on(put(&node.database("postgres").unwrap(), "acknowledged")).unwrap();
        let trap = Arc::new(Trap);
        match &*what {
            "machine" => break_a_machine(&node),
            _ => break_the_timers(&node, &trap),
        }
        std::thread::sleep(PATIENCE);
    }

    #[test]
    fn a_server_ends_its_process_with_a_report_and_has_what_it_acknowledged() {
        for (breaks, who) in
            [("machine", "its spanner machine of database "), ("timers", "its thread \"timers\"")]
        {
            let folder = tempfile::tempdir().unwrap();
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args([
                "--exact",
                "panics::tests::a_process_that_breaks",
                "--ignored",
                "--nocapture",
            ]);
            let ended = child.env("FOLDER", folder.path()).env("BREAKS", breaks).output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(EXIT_CODE), "{breaks}: {said}");
            let path = folder.path().join("panic-1.txt");
            let report = std::fs::read_to_string(&path).unwrap();
            for words in [who, "invariant: broken on purpose", "panics.rs:", "Start the node again"]
            {
                assert!(
                    report.contains(words) && said.contains(words),
                    "{breaks}: {words} is missing in {report}"
                );
            }
            let inputs =
                report.contains("the last one was being taken:") && report.contains(" s  call\n");
            assert_eq!(inputs, breaks == "machine", "{report}");
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let node = Node::open(Options::alone().at(folder.path())).unwrap();
            assert_eq!(
                block_on(get(&node.database("postgres").unwrap())),
                Ok(Some(Value::from("acknowledged")))
            );
        }
    }

    #[test]
    fn a_library_halts_the_node_that_panics_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Node::open(Options::alone().at(folder.path())).unwrap();
        let (node, other) = (open(), Node::open(Options::alone()).unwrap());
        let (database, of_other) =
            (node.database("postgres").unwrap(), other.database("postgres").unwrap());
        block_on(put(&database, "acknowledged")).unwrap();
        assert_eq!(node.halted(), None);
        let panicked = catch_unwind(AssertUnwindSafe(|| break_a_machine(&node)));
        assert!(panicked.is_err(), "a session that stepped the machine does not go on");
        let why = node.halted().expect("it says why");
        assert!(
            why.contains("acknowledges nothing any more") && why.contains("panic-1.txt"),
            "{why}"
        );
        assert!(block_on(put(&database, "too late")).is_err());
        block_on(put(&of_other, "unharmed")).unwrap();
        assert!(folder.path().join("panic-1.txt").exists());
        drop((node, database));
        let end = Instant::now() + PATIENCE;
        let node = loop {
            match Node::open(Options::alone().at(folder.path())) {
                Ok(node) => break node,
                Err(error) => assert!(Instant::now() < end, "{error}"), // Its threads are ending.
            }
        };
        assert_eq!(
            block_on(get(&node.database("postgres").unwrap())),
            Ok(Some(Value::from("acknowledged")))
        );
    }

    #[test]
    fn the_last_inputs_are_the_newest_and_in_order() {
        let mut inputs = LastInputs::default();
        for number in 0..100 {
            inputs.note(number, "timer", None);
        }
        let kept: Vec<u64> = inputs.oldest_first().map(|seen| seen.boot_ns).collect();
        assert_eq!(kept, (100 - LastInputs::KEPT as u64..100).collect::<Vec<_>>());
    }
}
