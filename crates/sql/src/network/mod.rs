//! `inet` and `cidr`: addresses, with the length of their network.
//!
//! Networks come before the addresses in them, narrower ones after wider ones.

mod text;

use crate::error::{SqlError, state};
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The families of addresses in PostgreSQL's binary format.
const FAMILY_4: u8 = 2;
const FAMILY_6: u8 = 3;

/// An address in a network, or with [`is_cidr`](Self::is_cidr) a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// The length of the network's prefix, at most [`width`](Self::width).
    bits: u8,
    is_cidr: bool,
}

fn out_of_range() -> SqlError {
    SqlError::new(state::OUT_OF_RANGE, "result is out of range")
}

impl Network {
    /// Creates an address in a network, or a network; `None` if the prefix is too long, or if an
    /// address of a network has bits behind its prefix.
    pub(crate) fn new(address: IpAddr, bits: u8, is_cidr: bool) -> Option<Network> {
        let new = Network { address, bits, is_cidr };
        let is_valid = bits <= new.width() && (!is_cidr || new.number() & !new.mask() == 0);
        is_valid.then_some(new)
    }

    /// Returns true if it is a `cidr`.
    pub const fn is_cidr(self) -> bool {
        self.is_cidr
    }

    /// Returns the length of the network's prefix: `masklen`.
    pub(crate) const fn bits(self) -> u8 {
        self.bits
    }

    /// Returns the bits of an address of its family.
    pub(crate) const fn width(self) -> u8 {
        match self.address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }

    /// Returns 4 or 6.
    pub(crate) const fn family(self) -> i32 {
        match self.address {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 6,
        }
    }

    /// Returns the address as a number.
    fn number(self) -> u128 {
        match self.address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// Returns the number with all bits of an address.
    fn all(self) -> u128 {
        u128::MAX >> (128 - self.width())
    }

    fn mask(self) -> u128 {
        let hosts = self.width() - self.bits;
        self.all().checked_shr(hosts.into()).unwrap_or(0).checked_shl(hosts.into()).unwrap_or(0)
    }

    /// Returns an address of its family.
    fn of_number(self, number: u128) -> IpAddr {
        match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }

    /// Returns the address alone, without a network.
    fn alone(self, number: u128) -> Network {
        Network { address: self.of_number(number), bits: self.width(), is_cidr: false }
    }

    /// Returns an address of its network.
    fn beside(self, number: u128) -> Network {
        Network { address: self.of_number(number), is_cidr: false, ..self }
    }

    /// Returns it as an `inet`.
    pub(crate) fn as_inet(self) -> Network {
        Network { is_cidr: false, ..self }
    }

    /// Returns its network: `network`.
    pub(crate) fn network(self) -> Network {
        let address = self.of_number(self.number() & self.mask());
        Network { address, is_cidr: true, ..self }
    }

    /// Returns the last address of its network: `broadcast`.
    pub(crate) fn broadcast(self) -> Network {
        self.beside(self.number() | (self.all() & !self.mask()))
    }

    /// Returns the bits of its prefix as an address: `netmask`.
    pub(crate) fn netmask(self) -> Network {
        self.alone(self.mask())
    }

    /// Returns the bits behind its prefix as an address: `hostmask`.
    pub(crate) fn hostmask(self) -> Network {
        self.alone(self.all() & !self.mask())
    }

    /// Returns it with a prefix of another length, -1 for the longest: `set_masklen`.
    pub(crate) fn with_bits(self, bits: i64) -> Result<Network, SqlError> {
        let longest = i64::from(self.width());
        if !(-1..=longest).contains(&bits) {
            let message = format!("invalid mask length: {bits}");
            return Err(SqlError::new(state::INVALID_PARAMETER, message));
        }
        let new = Network { bits: if bits < 0 { longest } else { bits } as u8, ..self };
        Ok(if self.is_cidr { new.network() } else { new })
    }

    /// Returns the narrowest network that has both: `inet_merge`.
    pub(crate) fn merge(self, other: Network) -> Result<Network, SqlError> {
        if self.family() != other.family() {
            let message = "cannot merge addresses from different families";
            return Err(SqlError::new(state::INVALID_PARAMETER, message));
        }
        let different = self.number() ^ other.number();
        let same = different.leading_zeros() as u8 - (128 - self.width());
        let bits = same.min(self.bits).min(other.bits);
        Ok(Network { bits, ..self }.network())
    }

    /// True if its network has all addresses of another's: `>>=`.
    pub(crate) fn contains(self, other: Network) -> bool {
        self.family() == other.family()
            && self.bits <= other.bits
            && (self.number() ^ other.number()) & self.mask() == 0
    }

    /// Returns the address a number of steps away. Fails with 22003 beyond the first or the last.
    pub(crate) fn plus(self, steps: i128) -> Result<Network, SqlError> {
        let moved = match u128::try_from(steps) {
            Ok(steps) => self.number().checked_add(steps),
            Err(_) => self.number().checked_sub(steps.unsigned_abs()),
        };
        let number = moved.filter(|number| *number <= self.all()).ok_or_else(out_of_range)?;
        Ok(self.beside(number))
    }

    /// Returns the steps from another address to it. Fails with 22003 if they are too many, and
    /// with 22023 for addresses of two families.
    pub(crate) fn minus(self, other: Network) -> Result<i64, SqlError> {
        if self.family() != other.family() {
            let message = "cannot subtract inet values of different sizes";
            return Err(SqlError::new(state::INVALID_PARAMETER, message));
        }
        let (a, b) = (self.number(), other.number());
        let steps = i128::try_from(a.abs_diff(b)).map_err(|_| out_of_range())?;
        i64::try_from(if a < b { -steps } else { steps }).map_err(|_| out_of_range())
    }

    /// Combines the bits of two addresses of one family.
    pub(crate) fn combine(
        self,
        other: Network,
        op: fn(u128, u128) -> u128,
        what: &str,
    ) -> Result<Network, SqlError> {
        if self.family() != other.family() {
            let message = format!("cannot {what} inet values of different sizes");
            return Err(SqlError::new(state::INVALID_PARAMETER, message));
        }
        let bits = self.bits.max(other.bits);
        Ok(Network { bits, ..self.beside(op(self.number(), other.number())) })
    }

    /// Inverts the bits of the address: `~`.
    pub(crate) fn inverted(self) -> Network {
        self.beside(!self.number() & self.all())
    }

    /// Orders by family, network, length of its prefix, and address.
    pub(crate) fn order(self, other: Network) -> Ordering {
        let parts = |it: Network| (it.family(), it.number() & it.mask(), it.bits, it.number());
        parts(self).cmp(&parts(other))
    }

    /// Appends the bytes of an address, 4 or 16.
    fn write_address(address: IpAddr, out: &mut Vec<u8>) {
        match address {
            IpAddr::V4(address) => out.extend(address.octets()),
            IpAddr::V6(address) => out.extend(address.octets()),
        }
    }

    /// Appends its key without a tag: the network, the length of the prefix, the address.
    pub(crate) fn write_key(self, out: &mut Vec<u8>) {
        Network::write_address(self.network().address, out);
        out.push(self.bits);
        Network::write_address(self.address, out);
    }

    /// Appends the length of the prefix and the address, behind a byte that tells the family.
    pub(crate) fn write_row(self, out: &mut Vec<u8>) {
        out.extend([self.family() as u8, self.bits]);
        Network::write_address(self.address, out);
    }

    /// Appends PostgreSQL's binary format.
    pub(crate) fn write_binary(self, out: &mut Vec<u8>) {
        let family = if self.family() == 4 { FAMILY_4 } else { FAMILY_6 };
        out.extend([family, self.bits, self.is_cidr.into(), self.width() / 8]);
        Network::write_address(self.address, out);
    }

    /// Reads an address of 4 or 16 bytes.
    pub(crate) fn of_octets(octets: &[u8], bits: u8, is_cidr: bool) -> Option<Network> {
        let address = match octets.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
            _ => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
        };
        Network::new(address, bits, is_cidr)
    }

    /// Reads PostgreSQL's binary format; `None` if it is wrong.
    pub(crate) fn from_binary(bytes: &[u8], is_cidr: bool) -> Option<Network> {
        let (&[family, bits, _, length], octets) = bytes.split_first_chunk()?;
        let wanted = match family {
            FAMILY_4 => 4,
            FAMILY_6 => 16,
            _ => return None,
        };
        let fits = octets.len() == wanted && usize::from(length) == wanted;
        fits.then(|| Network::of_octets(octets, bits, is_cidr)).flatten()
    }
}
