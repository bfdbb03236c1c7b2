//! Domains: types of a database that are a base type with a default, and with constraints on the
//! values that enter.
//!
//! A value of a domain is one of its base type: it is stored, compared, computed with and sent as
//! such. The constraints are checked by casts, and where rows are written. A column's descriptor
//! holds its domain, which holds the domain that it is over: a change of a domain is one of the
//! tables that have it.

mod parse;

pub(crate) use parse::cut;

use crate::catalog::{ColumnDef, Planned, Table, schema_codec, type_codec};
use crate::constraint::Check;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::system::quoted;
use crate::types::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The name by which a constraint names the value.
pub(crate) const VALUE: &str = "value";

/// The most domains over each other: a descriptor holds those that its domain is over.
const DEEPEST: usize = 32;

/// The descriptor of a domain.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Descriptor {
    #[n(0)]
    pub(crate) id: u32,
    /// The id of the type of its arrays.
    #[n(1)]
    pub(crate) array: u32,
    #[n(2)]
    pub(crate) name: String,
    #[n(3)]
    pub(crate) version: u64,
    /// The schema that it is in.
    #[n(4)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
    /// The type of its values, which is no domain.
    #[n(5)]
    #[cbor(with = "type_codec")]
    pub(crate) base: Type,
    /// The domain that it is over.
    #[n(6)]
    pub(crate) over: Option<Domain>,
    /// True if it rejects NULL by itself.
    #[n(7)]
    pub(crate) not_null: bool,
    /// The text of its default.
    #[n(8)]
    pub(crate) default: Option<String>,
    /// Its own CHECK constraints, by name.
    #[n(9)]
    pub(crate) checks: Vec<Check>,
}

impl Descriptor {
    /// Returns a table of one column, the value, which constraints are bound to.
    pub(crate) fn as_table(&self) -> Arc<Table> {
        Arc::new(Table::new(self.id, &self.name, vec![ColumnDef::new(VALUE, self.base)]))
    }
}

/// A domain as one version of its descriptor has it. The process keeps each version that it has
/// read, as it does of enum types. Two are equal if they are versions of one domain.
#[derive(Clone, Copy)]
pub struct Domain(&'static Interned);

/// A descriptor, and what follows from it.
struct Interned {
    descriptor: Descriptor,
    /// The name as SQL writes it.
    shown: String,
    /// The name of the type of arrays, as SQL writes it.
    shown_array: String,
    /// The CHECK constraints, bound: first those of the domains that it is over.
    checks: Vec<Check>,
    /// True if it rejects NULL, or one that it is over.
    rejects_null: bool,
}

impl PartialEq for Domain {
    fn eq(&self, other: &Domain) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Domain {}

impl Hash for Domain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.shown)
    }
}

impl<C> Encode<C> for Domain {
    fn encode<W: Write>(
        &self,
        e: &mut Encoder<W>,
        cx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        self.descriptor().encode(e, cx)
    }
}

impl<'b, C> Decode<'b, C> for Domain {
    fn decode(d: &mut Decoder<'b>, cx: &mut C) -> Result<Self, DecodeError> {
        Domain::of(Descriptor::decode(d, cx)?).map_err(DecodeError::message)
    }
}

impl Domain {
    /// Returns the domain of a descriptor. Fails with 54001 if it is over too many others, and as
    /// its constraints do if they have no meaning.
    pub(crate) fn of(descriptor: Descriptor) -> Result<Domain, SqlError> {
        static KNOWN: LazyLock<Mutex<HashMap<(u32, u64), Vec<Domain>>>> =
            LazyLock::new(Mutex::default);
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        // Databases, and transactions that did not commit, have versions of one number.
        let key = (descriptor.id, descriptor.version);
        let is_it = |it: &&Domain| it.is_exactly(&descriptor);
        if let Some(found) = known().get(&key).and_then(|all| all.iter().find(is_it)) {
            return Ok(*found);
        }
        let over = descriptor.over;
        if over.is_some_and(|over| over.chain().count() >= DEEPEST) {
            let message = format!("a domain over more than {DEEPEST} others");
            return Err(SqlError::new(state::TOO_COMPLEX, message));
        }
        let mut checks = descriptor.checks.clone();
        let value = descriptor.as_table();
        checks.iter_mut().try_for_each(|check| check.bind(&value))?;
        let rejects_null = descriptor.not_null || over.is_some_and(|over| over.0.rejects_null);
        let inherited = over.map_or(&[][..], |over| &over.0.checks);
        let checks = [inherited, &checks].concat();
        let shown = quoted(&descriptor.name);
        let shown_array = format!("{shown}[]");
        let interned = Interned { descriptor, shown, shown_array, checks, rejects_null };
        let new = Domain(Box::leak(Box::new(interned)));
        known().entry(key).or_default().push(new);
        Ok(new)
    }

    /// True if a descriptor is that of this version, also of the domains that it is over.
    fn is_exactly(self, descriptor: &Descriptor) -> bool {
        let is_same = match (self.descriptor().over, descriptor.over) {
            (Some(own), Some(other)) => own.is_exactly(other.descriptor()),
            (own, other) => own == other,
        };
        is_same && self.descriptor() == descriptor
    }

    /// Iterates over it and the domains that it is over.
    pub(crate) fn chain(self) -> impl Iterator<Item = Domain> {
        std::iter::successors(Some(self), |domain| domain.descriptor().over)
    }

    pub(crate) const fn descriptor(self) -> &'static Descriptor {
        &self.0.descriptor
    }

    /// Returns the object id of the type.
    pub const fn id(self) -> u32 {
        self.0.descriptor.id
    }

    /// Returns the object id of the type of its arrays.
    pub const fn array_id(self) -> u32 {
        self.0.descriptor.array
    }

    /// Returns the type of its values.
    pub const fn base(self) -> Type {
        self.0.descriptor.base
    }

    /// Returns the name as SQL writes it: in quotes if it needs them.
    pub const fn shown(self) -> &'static str {
        self.0.shown.as_str()
    }

    /// Returns the name of the type of its arrays, as SQL writes it.
    pub const fn shown_array(self) -> &'static str {
        self.0.shown_array.as_str()
    }

    pub(crate) fn planned(self) -> Planned {
        Planned { id: self.id(), version: self.descriptor().version, statistics: 0 }
    }

    /// Fails with 23502 or 23514 if a value of the base type violates a constraint.
    pub(crate) fn check(self, value: &Datum, facts: &Facts) -> Result<(), SqlError> {
        if value.is_null() && self.0.rejects_null {
            let message = format!("domain {} does not allow null values", self.shown());
            return Err(SqlError::new(state::NOT_NULL, message));
        }
        for check in &self.0.checks {
            if !check.holds(std::slice::from_ref(value), facts)? {
                let (domain, name) = (self.shown(), &check.name);
                let message =
                    format!("value for domain {domain} violates check constraint \"{name}\"");
                return Err(SqlError::new(state::CHECK, message));
            }
        }
        Ok(())
    }
}

impl Table {
    /// Fails with 23502 or 23514 if a row has a value that is none of its column's domain. Values
    /// that a row had before are not checked.
    pub(crate) fn check_domains(
        &self,
        row: &[Datum],
        before: Option<&[Datum]>,
        facts: &Facts,
    ) -> Result<(), SqlError> {
        for (at, column) in self.columns.iter().enumerate() {
            if let Some(domain) = column.domain
                && before.is_none_or(|before| before[at] != row[at])
            {
                domain.check(&row[at], facts)?;
            }
        }
        Ok(())
    }
}
