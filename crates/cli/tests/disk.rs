//! Tests a disk that fills up under a server, and has room again. The test is skipped, with a
//! message, if it may not mount a disk.

mod common;

use common::{Started, run, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A small file system of the test's own.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn mount(megabytes: u32) -> Option<Disk> {
        let folder = tempfile::tempdir().expect("a folder");
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Disk { folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills the disk except for `left` megabytes.
    fn fill(&self, left: u64) -> PathBuf {
        let ballast = self.path().join("ballast");
        let output = Command::new("df")
            .args(["--output=avail", "-B1048576"])
            .arg(self.path())
            .output()
            .expect("df runs");
        let free: u64 = stdout(&output)
            .lines()
            .nth(1)
            .and_then(|line| line.trim().parse().ok())
            .expect("a number");
        std::fs::write(&ballast, vec![0; (free.saturating_sub(left) << 20) as usize])
            .expect("there was room");
        ballast
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn writes_fail_while_the_disk_is_full_and_reads_go_on() {
    let Some(disk) = Disk::mount(400) else {
        eprintln!("SKIPPED: this user may not mount a disk");
        return;
    };
    let data = disk.path().join("node");
    let node = Started::on(&data);
    let sql = |node: &Started, statement: &str| run(&["sql", &node.url, "-e", statement]);
    assert!(sql(&node, "create table t (id int primary key, v text)").status.success());
    let ballast = disk.fill(60);
    let mut acknowledged = 0;
    let refused = loop {
        let from = acknowledged * 4000;
        let insert = format!(
            "insert into t select i, repeat('x', 1000) from generate_series({from}, {}) as i",
            from + 3999
        );
        let output = sql(&node, &insert);
        if !output.status.success() {
            break stderr(&output);
        }
        acknowledged += 1;
        assert!(acknowledged < 200, "the disk did not fill");
    };
    assert!(refused.contains("53100"), "{refused}");
    let count = |node: &Started| {
        let output = sql(node, "select count(*) from t");
        let shown = stdout(&output);
        assert!(output.status.success(), "{shown}{}", stderr(&output));
        shown.lines().nth(2).and_then(|line| line.trim().parse::<u64>().ok()).expect("a count")
    };
    assert_eq!(
        count(&node),
        acknowledged * 4000,
        "refused rows are there, or acknowledged ones are not"
    );
    std::fs::remove_file(ballast).expect("it is removed");
    let end = Instant::now() + Duration::from_secs(120);
    while !sql(&node, "insert into t values (-1, 'there is room')").status.success() {
        assert!(Instant::now() < end, "it does not recover");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(count(&node), acknowledged * 4000 + 1);
    node.kill();
    let node = Started::on(&data);
    assert_eq!(count(&node), acknowledged * 4000 + 1);
}
