//! `pgcrypto`: digests, authenticated ones (RFC 2104), and random bytes. Its ciphers, its passwords
//! and OpenPGP are refused.

use super::{Extension, sha1};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::function::of::*;
use crate::function::{Function, gen_random_uuid, text_at, wrong_type};
use md5::Digest as _;

pub(super) static EXTENSION: Extension = Extension {
    name: "pgcrypto",
    version: "1.3",
    comment: "cryptographic functions",
    fixed_types: &[],
    functions: &[
        Function::new("digest", &[TEXT, TEXT], A_BYTEA, digest),
        Function::new("digest", &[BYTEA, TEXT], A_BYTEA, digest),
        Function::new("hmac", &[TEXT, TEXT, TEXT], A_BYTEA, hmac),
        Function::new("hmac", &[BYTEA, BYTEA, TEXT], A_BYTEA, hmac),
        Function::new("gen_random_bytes", &[INT4], A_BYTEA, gen_random_bytes).volatile(),
        Function::new("gen_random_uuid", &[], A_UUID, gen_random_uuid).volatile(),
    ],
    types: &[],
    refused: &[
        "armor",
        "crypt",
        "dearmor",
        "decrypt",
        "decrypt_iv",
        "encrypt",
        "encrypt_iv",
        "gen_salt",
        "pgp_armor_headers",
        "pgp_key_id",
        "pgp_pub_decrypt",
        "pgp_pub_decrypt_bytea",
        "pgp_pub_encrypt",
        "pgp_pub_encrypt_bytea",
        "pgp_sym_decrypt",
        "pgp_sym_decrypt_bytea",
        "pgp_sym_encrypt",
        "pgp_sym_encrypt_bytea",
    ],
};

/// The most random bytes of a call.
const MOST_RANDOM: usize = 1024;

/// Algorithms that PostgreSQL may have by its library, and that are not built.
const REFUSED: [&str; 14] = [
    "blake2b512",
    "blake2s256",
    "md4",
    "ripemd160",
    "rmd160",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "sha512-224",
    "sha512-256",
    "shake128",
    "sm3",
    "whirlpool",
];

/// A digest.
#[derive(Clone, Copy)]
enum Algorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    /// Returns the algorithm of a name. Fails with 22023 if there is none, and with 0A000 if it is
    /// not built.
    fn named(name: &str) -> Result<Algorithm, SqlError> {
        let folded = name.to_lowercase();
        Ok(match folded.as_str() {
            "md5" => Algorithm::Md5,
            "sha1" => Algorithm::Sha1,
            "sha224" => Algorithm::Sha224,
            "sha256" => Algorithm::Sha256,
            "sha384" => Algorithm::Sha384,
            "sha512" => Algorithm::Sha512,
            name if REFUSED.contains(&name) => {
                return Err(SqlError::unsupported(format!("the digest {name}")));
            }
            _ => {
                let message = format!("Cannot use \"{name}\": No such hash algorithm");
                return Err(SqlError::new(state::INVALID_PARAMETER, message));
            }
        })
    }

    /// The length of a block, in bytes.
    fn block(self) -> usize {
        match self {
            Algorithm::Sha384 | Algorithm::Sha512 => 128,
            _ => 64,
        }
    }

    fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Algorithm::Md5 => md5::Md5::digest(data).to_vec(),
            Algorithm::Sha1 => sha1::digest(data).to_vec(),
            Algorithm::Sha224 => sha2::Sha224::digest(data).to_vec(),
            Algorithm::Sha256 => sha2::Sha256::digest(data).to_vec(),
            Algorithm::Sha384 => sha2::Sha384::digest(data).to_vec(),
            Algorithm::Sha512 => sha2::Sha512::digest(data).to_vec(),
        }
    }

    /// Returns the code that authenticates a message (RFC 2104).
    fn authenticate(self, message: &[u8], key: &[u8]) -> Vec<u8> {
        let mut block = if key.len() > self.block() { self.digest(key) } else { key.to_vec() };
        block.resize(self.block(), 0);
        let padded = |pad: u8, data: &[u8]| {
            let mut all: Vec<u8> = block.iter().map(|byte| byte ^ pad).collect();
            all.extend_from_slice(data);
            self.digest(&all)
        };
        padded(0x5c, &padded(0x36, message))
    }
}

fn bytes_at(args: &[Datum], at: usize) -> Result<&[u8], SqlError> {
    match args.get(at) {
        Some(Datum::Text(text)) => Ok(text.as_bytes()),
        Some(Datum::Bytes(bytes)) => Ok(bytes),
        _ => Err(wrong_type()),
    }
}

fn digest(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let algorithm = Algorithm::named(text_at(args, 1)?)?;
    Ok(Datum::Bytes(algorithm.digest(bytes_at(args, 0)?).into()))
}

fn hmac(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let algorithm = Algorithm::named(text_at(args, 2)?)?;
    Ok(Datum::Bytes(algorithm.authenticate(bytes_at(args, 0)?, bytes_at(args, 1)?).into()))
}

fn gen_random_bytes(args: &[Datum], _: &Scope<'_>) -> Result<Datum, SqlError> {
    let count = args.first().and_then(Datum::as_i64).and_then(|n| usize::try_from(n).ok());
    let Some(count @ 1..=MOST_RANDOM) = count else {
        return Err(SqlError::new("39000", "Length not in range"));
    };
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes)
        .map_err(|error| SqlError::new("58000", format!("no random bytes: {error}")))?;
    Ok(Datum::Bytes(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 4231, test cases 2 and 6, and RFC 2202 for the older digests.
        let hex = |bytes: Vec<u8>| bytes.iter().map(|it| format!("{it:02x}")).collect::<String>();
        let of = |algorithm: Algorithm, key: &[u8], message: &str| {
            hex(algorithm.authenticate(message.as_bytes(), key))
        };
        let question = "what do ya want for nothing?";
        for (algorithm, code) in [
            (Algorithm::Md5, "750c783e6ab0b503eaa86e310a5db738"),
            (Algorithm::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (Algorithm::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ] {
            assert_eq!(of(algorithm, b"Jefe", question), code);
        }
        let long_key = "Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(
            of(Algorithm::Sha256, &[0xaa; 131], long_key),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn algorithms_that_are_not_built_are_told_from_those_that_do_not_exist() {
        let state = |name| Algorithm::named(name).err().map(|error| error.sqlstate);
        assert_eq!(state("SHA256"), None);
        assert_eq!(state("sha3-256"), Some("0A000"));
        assert_eq!(state("nothing"), Some("22023"));
    }
}
