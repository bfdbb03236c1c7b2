//! A real directory. The one file of this room that touches the operating system.

use crate::{Disk, File};
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that this process alone may use.
pub struct OsDisk {
    directory: PathBuf,
    /// Locked as long as the process lives.
    _lock: fs::File,
}

impl OsDisk {
    /// Opens a directory, creating it if needed. Fails with `ResourceBusy`, naming the lock file, if another process has it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let path = directory.join("lock");
        let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(OsDisk { directory: directory.to_path_buf(), _lock: lock }),
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("{} is held by another process: stop it, or use another data directory", path.display()),
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
        let file = fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path)?;
        if new {
            self.sync_directory()?;
        }
        Ok(Arc::new(OsFile(file)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))?;
        self.sync_directory()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))?;
        self.sync_directory()
    }

    fn describe(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

struct OsFile(fs::File);

impl File for OsFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}
