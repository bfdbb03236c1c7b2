//! Domains: types of a database that are a base type with a default, and with constraints on the
//! values that enter.
//!
//! A value of a domain is one of its base type: it is stored, compared, computed with and sent as
//! such. The constraints are checked by casts, and where rows are written. A column's descriptor
//! holds its domain, which holds the domain that it is over: a change of a domain is one of the
//! tables that have it.

mod parse;

pub(crate) use parse::cut;

use crate::catalog::{ColumnDef, Table, schema_codec, type_codec};
use crate::constraint::Check;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::interned::{Identity, Interned, Registry};
use crate::types::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use std::sync::{Arc, LazyLock};

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

/// A domain, as one version of its descriptor has it.
pub type Domain = Interned<Constrained>;

/// The descriptor of a domain, and what follows from it.
pub struct Constrained {
    descriptor: Descriptor,
    /// The CHECK constraints, bound: first those of the domains that it is over.
    checks: Vec<Check>,
    /// True if it rejects NULL, or one that it is over.
    rejects_null: bool,
}

static KNOWN: LazyLock<Registry<Constrained>> = LazyLock::new(Registry::default);

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
        let Descriptor { id, array, version, .. } = descriptor;
        if let Some(found) =
            KNOWN.find((id, version), |known| is_same(&known.descriptor, &descriptor))
        {
            return Ok(found);
        }
        let over = descriptor.over;
        if over.is_some_and(|over| over.chain().count() >= DEEPEST) {
            let message = format!("a domain over more than {DEEPEST} others");
            return Err(SqlError::new(state::TOO_COMPLEX, message));
        }
        let mut checks = descriptor.checks.clone();
        let value = descriptor.as_table();
        checks.iter_mut().try_for_each(|check| check.bind(&value))?;
        let rejects_null =
            descriptor.not_null || over.is_some_and(|over| over.known().rejects_null);
        let inherited = over.map_or(&[][..], |over| &over.known().checks);
        let checks = [inherited, &checks].concat();
        let name = descriptor.name.clone();
        let known = Constrained { descriptor, checks, rejects_null };
        let of = Identity { id, array, version, name: &name };
        Ok(KNOWN.keep(of, known, |one, other| is_same(&one.descriptor, &other.descriptor)))
    }

    /// Iterates over it and the domains that it is over.
    pub(crate) fn chain(self) -> impl Iterator<Item = Domain> {
        std::iter::successors(Some(self), |domain| domain.descriptor().over)
    }

    pub(crate) const fn descriptor(self) -> &'static Descriptor {
        &self.known().descriptor
    }

    /// Returns the type of its values.
    pub const fn base(self) -> Type {
        self.known().descriptor.base
    }

    /// Fails with 23502 or 23514 if a value of the base type violates a constraint.
    pub(crate) fn check(self, value: &Datum, facts: &Facts) -> Result<(), SqlError> {
        if value.is_null() && self.known().rejects_null {
            let message = format!("domain {} does not allow null values", self.shown());
            return Err(SqlError::new(state::NOT_NULL, message));
        }
        for check in &self.known().checks {
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

/// True if two descriptors are one, with the same versions of the domains that they are over.
fn is_same(one: &Descriptor, other: &Descriptor) -> bool {
    let over = match (one.over, other.over) {
        (Some(one), Some(other)) => is_same(one.descriptor(), other.descriptor()),
        (one, other) => one == other,
    };
    over && one == other
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
