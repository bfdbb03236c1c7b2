//! A real directory. This is the crate's only file that uses the operating system.

use crate::{Disk, File};
use rustix::fs::{FlockOperation, flock, fstatvfs};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that this process alone may use, as long as the disk or one of its files is open.
/// Only the user that runs the process may read the directory and the files that it creates.
pub struct OsDisk {
    directory: PathBuf,
    /// Holds the lock as long as it is open.
    lock: Arc<fs::File>,
}

impl OsDisk {
    /// Opens a directory, and creates it if needed. Fails with `ResourceBusy`, naming the lock
    /// file, if another process uses it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join("lock");
        let lock = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(OsDisk { directory: directory.to_path_buf(), lock: Arc::new(lock) }),
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!(
                    "{} is held by another process: stop it, or use another data directory",
                    path.display()
                ),
            )),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        fs::File::open(&self.directory)?.sync_all()
    }
}

impl Disk for OsDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.directory.join(name);
        let new = !path.exists();
        let file = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        if new {
            self.sync_directory()?;
        }
        Ok(Arc::new(OsFile { file, _lock: Arc::clone(&self.lock) }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))?;
        self.sync_directory()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))?;
        self.sync_directory()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(free_bytes(&*self.lock)?.min(largest_file()))
    }

    fn describe(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

/// Returns the bytes that an unprivileged user may still write to a file's file system.
fn free_bytes(of: impl AsFd) -> io::Result<u64> {
    let found = fstatvfs(of)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns the largest file size that this process may write (`ulimit -f`).
fn largest_file() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX)
}

struct OsFile {
    file: fs::File,
    _lock: Arc<fs::File>,
}

impl File for OsFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(free_bytes(&self.file)?.min(largest_file().saturating_sub(self.len()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_user_as_long_as_a_file_of_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let disk = OsDisk::open(folder.path()).unwrap();
        let file = disk.open("f").unwrap();
        drop(disk);
        let refused = OsDisk::open(folder.path()).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        assert!(refused.to_string().contains("lock is held by another process"), "{refused}");
        file.write_at(0, b"x").unwrap();
        assert!(file.free_bytes().unwrap() > 0);
        drop(file);
        assert_eq!(OsDisk::open(folder.path()).unwrap().list().unwrap(), ["f", "lock"]);
    }
}
