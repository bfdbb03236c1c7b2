//! chrony's own daemon, where it is installed. It runs beside the system clock (`-x`) and reports
//! the clock's error.
#![cfg(target_os = "linux")]

use meridian_host::sources::chrony::Chrony;
use meridian_host::sources::{Source, Status};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn chronyd_is_understood() {
    if Command::new("chronyd")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!(
            "chronyd is not installed: only its recorded replies in the unit tests were tried"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // chronyd listens only in a folder that no other user may write.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let socket = folder.path().join("chronyd.sock");
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let configuration = folder.path().join("chrony.conf");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let told = format!(
        "local stratum 1\nport 0\ncmdport {port}\nbindcmdaddress 127.0.0.1\nbindcmdaddress {}\npidfile {}\n",
        socket.display(),
        at("pid")
    );
    std::fs::write(&configuration, told).unwrap();
    let user = std::env::var("USER").unwrap_or_else(|_| "root".into());
    let mut command = Command::new("chronyd");
    command.args(["-x", "-U", "-d", "-u", &user, "-f", configuration.to_str().unwrap()]);
    let _daemon = Daemon(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(120);
    while !socket.exists() {
        assert!(Instant::now() < end, "chronyd does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    // By its socket, and by its port.
    for socket in [socket, folder.path().join("nowhere")] {
        let mut chrony = Chrony::at(&socket, SocketAddr::from(([127, 0, 0, 1], port)));
        let end = Instant::now() + Duration::from_secs(120);
        let said = loop {
            match chrony.ask() {
                Ok(said) => break said,
                Err(why) => assert!(Instant::now() < end, "{why}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(
            said.status == Status::Synchronised && said.interval.half_width_ns() < 1_000_000_000,
            "{said:?}"
        );
    }
}
