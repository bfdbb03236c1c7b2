//! Small files of a node that are replaced atomically: each has its last content, or does not
//! exist.
//!
//! ```text
//!   header  crc:u32 of the body  body
//! ```

use crate::private;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file of a folder. When this returns, the file is durable.
pub fn write(folder: &Path, name: &str, header: &[u8], body: &[u8]) -> io::Result<()> {
    let fresh = folder.join(format!("{name}.new"));
    let mut file = private::create(&fresh)?;
    file.write_all(&[header, &crc32fast::hash(body).to_le_bytes(), body].concat())?;
    file.sync_all()?;
    fs::rename(&fresh, folder.join(name))?;
    File::open(folder)?.sync_all()
}

/// Reads a file. Returns `None` if it does not exist. Fails with the message `damaged` if the
/// checksum does not match, or if `decode` returns `None`.
pub fn read<T>(
    path: &Path,
    header: &[u8],
    damaged: &str,
    decode: impl FnOnce(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = bytes.strip_prefix(header).and_then(checked).and_then(decode);
    found.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, damaged))
}

/// Returns the body behind a checksum, if it matches.
pub fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (crc, body) = bytes.split_first_chunk()?;
    (u32::from_le_bytes(*crc) == crc32fast::hash(body)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("word");
        let read = || read(&path, b"a header\n", "it is damaged", |body| Some(body.to_vec()));
        assert_eq!(read().unwrap(), None);
        for word in [&b"first"[..], b"", b"the second one"] {
            write(folder.path(), "word", b"a header\n", word).unwrap();
            assert_eq!(read().unwrap().as_deref(), Some(word));
        }
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            fs::write(&path, &bad).unwrap();
            assert_eq!(read().unwrap_err().to_string(), "it is damaged");
            fs::write(&path, &good[..at]).unwrap();
            assert!(read().is_err());
        }
    }
}
