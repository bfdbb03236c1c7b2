//! The measured servers: started in folders of their own, and stopped in any case.

use crate::machine::{Used, used};
use crate::pgbench::Target;
use std::ffi::{CString, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The processes that serve one database.
pub struct Server {
    /// The name in tables.
    pub name: String,
    /// The address for clients.
    pub target: Target,
    /// The address of /metrics of the first process, if it has that.
    pub http: Option<String>,
    children: Vec<Child>,
    /// The signal that ends a child: PostgreSQL's "fast" shutdown is SIGINT.
    signal: i32,
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &self.children {
            // SAFETY: a signal to a child that was not waited for yet, so that its number is still
            // its own.
            unsafe { libc::kill(child.id() as i32, self.signal) };
        }
        for child in &mut self.children {
            let end = Instant::now() + Duration::from_secs(20);
            while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Server {
    /// Returns the resources that its processes have used.
    pub fn used(&self) -> Used {
        used(&self.children.iter().map(Child::id).collect::<Vec<_>>())
    }

    /// Returns a counter of /metrics of the first process.
    pub fn counter(&self, name: &str) -> Option<u64> {
        let mut socket = TcpStream::connect(self.http.as_ref()?).ok()?;
        write!(socket, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line?.trim().parse().ok()
    }
}

/// Makes a child end when this program does, in any case: a server left behind would burn CPU in
/// every later run.
pub fn ends_with_us(command: &mut Command, signal: i32) {
    // SAFETY: between fork and exec, one call that the kernel allows there.
    unsafe {
        command.pre_exec(move || match libc::prctl(libc::PR_SET_PDEATHSIG, signal) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// Returns a port that is free now.
pub fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// Starts `meridian start`, once or as three nodes of a cluster, with these additional flags.
pub fn meridian(
    binary: &Path,
    folder: &Path,
    nodes: usize,
    flags: &[&str],
) -> Result<Server, String> {
    let listens = (0..nodes)
        .map(|_| Ok(format!("127.0.0.1:{}", free_port()?)))
        .collect::<Result<Vec<_>, String>>()?;
    let name = if nodes == 1 { "meridian".into() } else { format!("meridian ×{nodes}") };
    let target = Target { port: 0, user: "root".into() };
    let mut server =
        Server { name, target, http: None, children: Vec::new(), signal: libc::SIGTERM };
    for (at, listen) in listens.iter().enumerate() {
        let mut command = Command::new(binary);
        command.args(["start", "--sql", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"]);
        command.arg(folder.join(format!("meridian{at}")));
        if nodes > 1 {
            command.args(["--listen", listen, "--join", &listens.join(",")]);
        }
        command.args(flags);
        ends_with_us(&mut command, libc::SIGTERM);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child =
            child.map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
        let out = child.stdout.take();
        server.children.push(child);
        let (mut sql, mut http, mut ready) = (None, None, false);
        for line in BufReader::new(out.ok_or("no output")?).lines().map_while(Result::ok) {
            let port = |of: &str| line.trim().strip_prefix(of).map(str::trim).map(str::to_owned);
            sql = port("sql ").or(sql);
            http = port("http ").or(http);
            if line.starts_with("Ready") {
                ready = true;
                break;
            }
        }
        if !ready {
            return Err("meridian start did not get ready; it says why above".into());
        }
        let after = |url: Option<String>, mark: &str| {
            url.and_then(|url| Some(url.split_once(mark)?.1.split('/').next()?.to_owned()))
        };
        if at == 0 {
            let sql = after(sql, "@").ok_or("meridian start named no SQL port")?;
            server.target.port =
                sql.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("no port")?;
            server.http = after(http, "//");
        }
    }
    Ok(server)
}

/// PostgreSQL's programs, and the user to run them as: the server refuses to run as root.
pub struct Postgres {
    folder: PathBuf,
    user: Option<(u32, u32)>,
}

impl Postgres {
    /// Finds PostgreSQL where distributions install it.
    pub fn find() -> Result<Postgres, String> {
        let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("bin"))
            .collect();
        folders.sort();
        folders.reverse();
        folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        let found = folders
            .into_iter()
            .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists());
        let folder = found.ok_or("PostgreSQL's server is not installed (Debian: postgresql)")?;
        // SAFETY: no argument, no failure.
        let root = unsafe { libc::geteuid() } == 0;
        let user = if root {
            Some(user("postgres").ok_or("there is no user \"postgres\" to run it as")?)
        } else {
            None
        };
        Ok(Postgres { folder, user })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command.env_remove("PGDATA").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Returns the folders in which this process finds programs, behind that of PostgreSQL's.
    pub fn first_in_path(&self) -> Result<OsString, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.folder.clone()).chain(std::env::split_paths(&path));
        std::env::join_paths(folders).map_err(|error| format!("PATH: {error}"))
    }

    /// Returns the version.
    pub fn version(&self) -> String {
        let output = Command::new(self.folder.join("postgres")).arg("--version").output();
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
            .unwrap_or_default()
    }

    /// Starts a server and `standbys` standbys, any one of which must confirm each commit.
    pub fn start(&self, folder: &Path, standbys: usize) -> Result<Server, String> {
        self.start_with(folder, standbys, &[])
    }

    /// Starts a server with additional settings, and standbys.
    pub fn start_with(
        &self,
        folder: &Path,
        standbys: usize,
        more: &[&str],
    ) -> Result<Server, String> {
        let user = "postgres".to_owned();
        let name =
            if standbys == 0 { "postgresql".into() } else { format!("postgresql +{standbys}") };
        let target = Target { port: free_port()?, user };
        let mut server =
            Server { name, target, http: None, children: Vec::new(), signal: libc::SIGINT };
        let home = folder.join("postgresql");
        self.own(&home)?;
        let data = home.join("primary");
        run(self.command("initdb").args(["-U", "postgres", "-A", "trust", "-D"]).arg(&data))?;
        let names: Vec<String> = (0..standbys).map(|at| format!("s{at}")).collect();
        let mut settings = vec!["shared_buffers=1GB".to_owned(), "max_wal_size=4GB".to_owned()];
        settings.extend(more.iter().map(|&setting| setting.to_owned()));
        if standbys > 0 {
            settings.push("max_wal_senders=10".to_owned());
        }
        server.children.push(self.spawn(&data, server.target.port, &settings)?);
        answers(server.target.port)?;
        for name in &names {
            let port = free_port()?;
            let data = home.join(name);
            let from = format!(
                "host=127.0.0.1 port={} user=postgres application_name={name}",
                server.target.port
            );
            run(self
                .command("pg_basebackup")
                .args(["-R", "-X", "stream", "-c", "fast", "-d", &from, "-D"])
                .arg(&data))?;
            let conninfo = format!("primary_conninfo={from}");
            server.children.push(self.spawn(
                &data,
                port,
                &[settings.clone(), vec![conninfo]].concat(),
            )?);
            answers(port)?;
        }
        if standbys > 0 {
            let any = format!(
                "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({})'",
                names.join(", ")
            );
            for statement in [any.as_str(), "SELECT pg_reload_conf()"] {
                let port = server.target.port.to_string();
                run(Command::new("psql")
                    .args([
                        "-X",
                        "-q",
                        "-h",
                        "127.0.0.1",
                        "-p",
                        &port,
                        "-U",
                        "postgres",
                        "-c",
                        statement,
                    ])
                    .stdout(Stdio::null()))?;
            }
        }
        Ok(server)
    }

    /// Creates a folder that the server's user may write.
    fn own(&self, folder: &Path) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(wrong)?;
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(folder, Some(user), Some(group)).map_err(wrong)?;
        }
        Ok(())
    }

    fn spawn(&self, data: &Path, port: u16, settings: &[String]) -> Result<Child, String> {
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(data)
            .args(["-p", &port.to_string(), "-k", "", "-h", "127.0.0.1"])
            .stderr(Stdio::null());
        for setting in settings {
            command.args(["-c", setting]);
        }
        ends_with_us(&mut command, libc::SIGINT);
        command.spawn().map_err(|error| format!("cannot run postgres: {error}"))
    }
}

fn user(name: &str) -> Option<(u32, u32)> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string; the answer is read before anything else could ask, in a
    // program of one thread.
    unsafe { libc::getpwnam(name.as_ptr()).as_ref() }.map(|entry| (entry.pw_uid, entry.pw_gid))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Waits until a server accepts connections.
fn answers(port: u16) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let ready = Command::new("pg_isready")
            .args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()])
            .status();
        if ready.is_ok_and(|status| status.success()) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("PostgreSQL did not take connections within a minute".into())
}

/// Lets other users into a folder: PostgreSQL runs as one.
pub fn readable(folder: &Path) -> Result<(), String> {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, open).map_err(|error| error.to_string())
}

/// Builds the program in release, and returns its path.
pub fn build() -> Result<PathBuf, String> {
    eprintln!("building the command in release …");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--release", "-p", "meridiandb"]).status();
    if !built.map_err(|error| error.to_string())?.success() {
        return Err("the release build failed".into());
    }
    Ok(target().join("release/meridian"))
}

/// Returns cargo's folder of what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}
