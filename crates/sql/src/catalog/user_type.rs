//! The types of a database, which names may mean beside PostgreSQL's.

use super::{Object, Planned};
use crate::base_type::BaseType;
use crate::composite::Composite;
use crate::domain::Domain;
use crate::enumeration::Enum;
use crate::types::Type;

/// A type that a descriptor of the database tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserType {
    /// An enum type.
    Enum(Enum),
    /// A domain.
    Domain(Domain),
    /// A composite type.
    Composite(Composite),
    /// A base type.
    Base(BaseType),
}

impl UserType {
    /// Returns the type that an object is, if it is one.
    pub(crate) fn of(object: &Object) -> Option<UserType> {
        match object {
            Object::Enum(ty) => Some(UserType::Enum(*ty)),
            Object::Domain(domain) => Some(UserType::Domain(*domain)),
            Object::Composite(ty) => Some(UserType::Composite(*ty)),
            Object::BaseType(ty) => Some(UserType::Base(*ty)),
            _ => None,
        }
    }

    /// Returns the type of its values: of a domain, the base type.
    pub const fn ty(self) -> Type {
        match self {
            UserType::Enum(of) => Type::Enum(of),
            UserType::Domain(of) => of.base(),
            UserType::Composite(of) => Type::Composite(of),
            UserType::Base(of) => Type::Base(of),
        }
    }

    /// Returns the object id of the type.
    pub const fn id(self) -> u32 {
        match self {
            UserType::Enum(of) => of.id(),
            UserType::Domain(of) => of.id(),
            UserType::Composite(of) => of.id(),
            UserType::Base(of) => of.id(),
        }
    }

    /// Returns the object id of the type of its arrays.
    pub const fn array_id(self) -> u32 {
        match self {
            UserType::Enum(of) => of.array_id(),
            UserType::Domain(of) => of.array_id(),
            UserType::Composite(of) => of.array_id(),
            UserType::Base(of) => of.array_id(),
        }
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            UserType::Enum(of) => &of.descriptor().name,
            UserType::Domain(of) => &of.descriptor().name,
            UserType::Composite(of) => &of.descriptor().name,
            UserType::Base(of) => &of.descriptor().name,
        }
    }

    /// Returns the schema that it is in.
    pub(crate) const fn schema(self) -> u32 {
        match self {
            UserType::Enum(of) => of.descriptor().schema,
            UserType::Domain(of) => of.descriptor().schema,
            UserType::Composite(of) => of.descriptor().schema,
            UserType::Base(of) => of.descriptor().schema,
        }
    }

    /// Returns the name as SQL writes it: in quotes if it needs them.
    pub const fn shown(self) -> &'static str {
        match self {
            UserType::Enum(of) => of.shown(),
            UserType::Domain(of) => of.shown(),
            UserType::Composite(of) => of.shown(),
            UserType::Base(of) => of.shown(),
        }
    }

    /// Returns the name of the type of its arrays, as SQL writes it.
    pub const fn shown_array(self) -> &'static str {
        match self {
            UserType::Enum(of) => of.shown_array(),
            UserType::Domain(of) => of.shown_array(),
            UserType::Composite(of) => of.shown_array(),
            UserType::Base(of) => of.shown_array(),
        }
    }

    /// Returns the object that it is.
    pub(crate) const fn object(self) -> Object {
        match self {
            UserType::Enum(of) => Object::Enum(of),
            UserType::Domain(of) => Object::Domain(of),
            UserType::Composite(of) => Object::Composite(of),
            UserType::Base(of) => Object::BaseType(of),
        }
    }

    /// True if another is the same version of the same type: the process keeps each version once.
    pub(crate) fn is_version(self, other: UserType) -> bool {
        match (self, other) {
            (UserType::Enum(one), UserType::Enum(other)) => one.is_version(other),
            (UserType::Domain(one), UserType::Domain(other)) => one.is_version(other),
            (UserType::Composite(one), UserType::Composite(other)) => one.is_version(other),
            (UserType::Base(one), UserType::Base(other)) => one.is_version(other),
            _ => false,
        }
    }

    pub(crate) fn planned(self) -> Planned {
        match self {
            UserType::Enum(of) => of.planned(),
            UserType::Domain(of) => of.planned(),
            UserType::Composite(of) => of.planned_row(),
            UserType::Base(of) => of.planned(),
        }
    }
}
