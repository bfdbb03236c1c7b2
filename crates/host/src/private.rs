//! Files and folders of a node's data, which only the user that runs it may read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Read and write permission for the owner alone.
const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;

/// Creates a file, or truncates an existing one.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE).open(path)
}

/// Opens a file for writing, and creates it if it does not exist.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(FILE).open(path)
}

/// Creates a folder and its parents, unless they exist.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}
