//! Files and folders of a node's data, which only the user that runs it may read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Read and written by their owner alone.
const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;

/// Creates a file, or empties one that is there.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE).open(path)
}

/// Opens a file for writing, creating it if it is not there.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(FILE).open(path)
}

/// Creates a folder and those above it, unless they are there.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}
