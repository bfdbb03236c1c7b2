//! The token by which a member gets its certificate.

use std::fmt::{self, Write};
use std::str::FromStr;

const PREFIX: &str = "meridian-";
const BYTES: usize = 32;

/// A secret, and the mark of the cluster's authority. A process that has the token can become a
/// member: it is kept like a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The secret that is shown to the first member.
    pub secret: [u8; 16],
    /// The first half of the SHA-256 of the authority's certificate.
    pub authority: [u8; 16],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Returns the token as text, for a file. `Token` does not implement `Display`, so that it is
    /// not printed by accident.
    pub fn to_text(&self) -> String {
        let mut text = PREFIX.to_owned();
        for byte in self.secret.iter().chain(&self.authority) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

impl FromStr for Token {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "not a token: expected `meridian-` and 64 hexadecimal digits, as in certificates/token of the first member";
        let digits = text.trim().strip_prefix(PREFIX).ok_or(WRONG)?;
        if digits.len() != 2 * BYTES || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        let byte =
            |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| WRONG);
        let mut token = Token { secret: [0; 16], authority: [0; 16] };
        for at in 0..16 {
            (token.secret[at], token.authority[at]) = (byte(at)?, byte(at + 16)?);
        }
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_garbage_is_refused() {
        let token = Token { secret: [0xa5; 16], authority: [7; 16] };
        assert_eq!(format!("{}\n", token.to_text()).parse(), Ok(token.clone()));
        let text = token.to_text();
        for wrong in [
            "",
            "meridian-",
            &text[1..],
            &text[..text.len() - 1],
            &text.replace("a5", "é"),
            &format!("{text}0"),
        ] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
        assert!(!format!("{token:?}").contains("a5"));
    }
}
