//! The text format of addresses and networks.

use super::Network;
use crate::error::{SqlError, state};
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads up to four numbers between points; the others are 0. Returns their number, too.
fn octets(text: &str) -> Option<(Ipv4Addr, usize)> {
    let (mut octets, mut count) = ([0; 4], 0);
    for part in text.split('.') {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *octets.get_mut(count)? = part.parse().ok().filter(|_| is_number)?;
        count += 1;
    }
    Some((Ipv4Addr::from(octets), count))
}

/// Reads the length of a prefix.
fn length(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Returns the length of the prefix of a network that is written without: that of its class, or of
/// the numbers that are written.
fn length_of_class(address: Ipv4Addr, written: usize) -> u8 {
    let of_class = match address.octets()[0] {
        240.. => 32,
        224.. => 8,
        192.. => 24,
        128.. => 16,
        _ => 8,
    };
    match (address.octets()[0], of_class.max(8 * written as u8)) {
        // All multicast addresses.
        (224, 8) => 4,
        (_, length) => length,
    }
}

/// Reads an address and the length of its network's prefix.
fn parts(text: &str, is_cidr: bool) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(length(bits)?)),
        None => (text, None),
    };
    if address.contains(':') {
        let address: Ipv6Addr = address.parse().ok()?;
        return Some((address.into(), bits.unwrap_or(128)));
    }
    let (address, written) = octets(address)?;
    let bits = match bits {
        Some(bits) => bits,
        None if is_cidr => length_of_class(address, written),
        None if written == 4 => 32,
        None => return None,
    };
    Some((address.into(), bits))
}

impl Network {
    /// Reads the text format of `inet` or `cidr`.
    pub(crate) fn from_text(text: &str, is_cidr: bool) -> Result<Network, SqlError> {
        let ty = if is_cidr { "cidr" } else { "inet" };
        let bad = || {
            let message = format!("invalid input syntax for type {ty}: \"{text}\"");
            SqlError::new(state::BAD_TEXT, message)
        };
        let (address, bits) = parts(text, is_cidr).ok_or_else(bad)?;
        let inet = Network::new(address, bits, false).ok_or_else(bad)?;
        if !is_cidr {
            return Ok(inet);
        }
        Network::new(address, bits, true).ok_or_else(|| {
            SqlError::new(state::BAD_TEXT, format!("invalid cidr value: \"{text}\""))
                .detail("Value has bits set to right of mask.")
        })
    }

    /// Returns the address alone: `host`.
    pub(crate) fn host(self) -> String {
        match self.address {
            IpAddr::V4(address) => address.to_string(),
            // PostgreSQL shows these with points, too.
            IpAddr::V6(address) if is_compatible(address) => {
                let last = Ipv4Addr::from_bits(address.to_bits() as u32);
                format!("::{last}")
            }
            IpAddr::V6(address) => address.to_string(),
        }
    }

    /// Returns the address with the length of its network's prefix, as a cast to `text` does.
    pub(crate) fn full(self) -> String {
        format!("{}/{}", self.host(), self.bits)
    }

    /// Returns a network without the zeros at its end: `abbrev`.
    pub(crate) fn abbreviated(self) -> String {
        if !self.is_cidr {
            return self.to_string();
        }
        let mut out = String::new();
        match self.address {
            IpAddr::V4(address) => {
                let written = usize::from(self.bits).div_ceil(8).max(1);
                let octets = address.octets().map(|octet| octet.to_string());
                out.push_str(&octets[..written].join("."));
            }
            IpAddr::V6(address) => abbreviate(address, self.bits, &mut out),
        }
        _ = write!(out, "/{}", self.bits);
        out
    }
}

/// Writes the segments of a network, at least two, with `::` for the longest run of zeros.
fn abbreviate(address: Ipv6Addr, bits: u8, out: &mut String) {
    let written = match usize::from(bits).div_ceil(16) {
        0 => return out.push_str("::"),
        count => count.max(2),
    };
    let segments = &address.segments()[..written];
    let (mut zeros, mut at) = (0..0, 0);
    while at < written {
        let length = segments[at..].iter().take_while(|segment| **segment == 0).count();
        if length > zeros.len() {
            zeros = at..at + length;
        }
        at += length.max(1);
    }
    for (at, segment) in segments.iter().enumerate() {
        if !zeros.contains(&at) {
            if at > 0 {
                out.push(':');
            }
            _ = write!(out, "{segment:x}");
        } else if at == zeros.start {
            out.push(':');
            if zeros.end == written {
                out.push(':');
            }
        }
    }
}

/// True for an address of which only the last 32 bits are set, and not only the last 16.
fn is_compatible(address: Ipv6Addr) -> bool {
    let number = address.to_bits();
    number <= u32::MAX.into() && number > u16::MAX.into()
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host())?;
        match self.is_cidr || self.bits < self.width() {
            true => write!(f, "/{}", self.bits),
            false => Ok(()),
        }
    }
}
