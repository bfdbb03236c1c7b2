//! Extensions: functions, operators and types that a database has once CREATE EXTENSION has
//! installed them. They are built in; the descriptor of an installed one says where its objects
//! are found.
//!
//! ```text
//!   CREATE EXTENSION x SCHEMA s   Installed { name, schema, version }       ddl/extensions.rs
//!   SELECT uuid_generate_v4()     which extensions declare the name?        referenced.rs
//!                                 which are installed, in a schema of the
//!                                 path?                                     catalog::Resolver
//!                                 their forms beside those of PostgreSQL    bind/extension.rs
//!   DEFAULT uuid_generate_v4()    stored as "<id>".uuid_generate_v4(), with
//!                                 the id of the extension                   ddl/extensions.rs
//! ```
//!
//! An extension is added by one file and one line in [`ALL`]. The file declares a `static` of
//! [`Extension`]:
//!
//! - `functions` are rows of the same kind as those of `function`: name, parameters, result,
//!   kernel. An operator is a row that has the operator as its name, with one or two parameters.
//! - `types` are base types, each of a kind of `base_type`, which says how values are read, shown
//!   and ordered. A database gives them ids of its own when it installs the extension; from then on
//!   they are found as enum types are. The types of a function's parameters are those that every
//!   database has: an operator's meaning for a value of a base type follows from its kind where it
//!   is bound, as in `bind/citext.rs`. `fixed_types` have one id in all databases.
//! - `refused` are the names of functions that PostgreSQL's extension has and this one does not:
//!   a call of them fails with 0A000.
//! - Functions that have the name of one of PostgreSQL's are chosen among both kinds.

mod citext;
mod hstore;
mod installed;
mod parse;
mod pg_trgm;
mod pgcrypto;
mod sha1;
mod uuid_ossp;

pub(crate) use installed::Installed;
pub(crate) use parse::{ExtensionStatement, cut};

use crate::base_type::Kind;
use crate::error::SqlError;
use crate::function::{self, Function, Param};
use crate::names::Qualified;
use crate::types::Type;

/// An extension that a database may install.
pub(crate) struct Extension {
    pub(crate) name: &'static str,
    /// The version of PostgreSQL 15.
    pub(crate) version: &'static str,
    /// The comment of `pg_available_extensions`.
    pub(crate) comment: &'static str,
    /// Its types whose oid is one in all databases.
    pub(crate) fixed_types: &'static [Type],
    /// Its functions and operators.
    pub(crate) functions: &'static [Function],
    /// The names of its types, and what their values are.
    pub(crate) types: &'static [(&'static str, Kind)],
    /// The names of functions that PostgreSQL's extension has, and that are not built.
    pub(crate) refused: &'static [&'static str],
}

/// The extensions, by name.
pub(crate) static ALL: [&Extension; 5] = [
    &citext::EXTENSION,
    &hstore::EXTENSION,
    &pg_trgm::EXTENSION,
    &pgcrypto::EXTENSION,
    &uuid_ossp::EXTENSION,
];

/// Returns the extension of a name.
pub(crate) fn available(name: &str) -> Option<&'static Extension> {
    ALL.into_iter().find(|extension| extension.name == name)
}

/// Iterates over the extensions that declare a function or an operator of a name.
pub(crate) fn declaring(name: &str) -> impl Iterator<Item = &'static Extension> {
    ALL.into_iter().filter(move |extension| extension.declares(name))
}

/// Returns the extension that has a type.
pub(crate) fn of_type(ty: Type) -> Option<&'static Extension> {
    ALL.into_iter().find(|extension| extension.fixed_types.contains(&ty))
}

/// Returns the extension that has a type of a name, or of the name of its arrays.
pub(crate) fn of_type_name(name: &str) -> Option<&'static Extension> {
    let name = name.strip_prefix('_').unwrap_or(name);
    let has_it = |extension: &&Extension| extension.fixed_types.iter().any(|ty| ty.name() == name);
    ALL.into_iter().find(has_it)
}

/// True if a name may be that of a function or an operator of an extension.
pub(crate) fn may_have(name: &Qualified) -> bool {
    name.extension().is_some() || declaring(&name.name).next().is_some()
}

/// Returns the forms of a function in a stored text, whose extension was installed when the text
/// was stored, and is as long as the text is.
pub(crate) fn stored_forms(name: &str) -> Vec<&'static Function> {
    declaring(name).flat_map(|extension| extension.forms(name)).collect()
}

impl Extension {
    /// True if it has a function or an operator of a name, or refuses calls of it. An operator that
    /// PostgreSQL has, too, is one of the extension for values of its types alone, which lead to it
    /// without a look at its name.
    pub(crate) fn declares(&self, name: &str) -> bool {
        let is_found = |function: &&Function| {
            let of_own_type =
                |param: &Param| self.fixed_types.iter().any(|ty| *param == Param::Of(*ty));
            let is_known = name == "-" || !function::named(name).is_empty();
            function.name == name
                && !(is_known
                    && function::is_operator(name)
                    && function.params.iter().any(of_own_type))
        };
        self.functions.iter().any(|function| is_found(&function)) || self.refused.contains(&name)
    }

    /// Iterates over the forms of a function or an operator.
    pub(crate) fn forms(&'static self, name: &str) -> impl Iterator<Item = &'static Function> {
        self.functions.iter().filter(move |function| function.name == name)
    }

    /// Fails with 0A000 if the function of a name is not built.
    pub(crate) fn refuse(&self, name: &str) -> Result<(), SqlError> {
        match self.refused.contains(&name) {
            true => {
                let what = format!("the function {name} of the extension {}", self.name);
                Err(SqlError::unsupported(what))
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_ordered_by_name_and_refuse_nothing_that_they_have() {
        assert!(ALL.is_sorted_by(|one, other| one.name < other.name));
        for extension in ALL {
            for refused in extension.refused {
                assert_eq!(extension.forms(refused).count(), 0, "{refused}");
                assert_eq!(extension.refuse(refused).expect_err("refused").sqlstate, "0A000");
            }
        }
    }

    #[test]
    fn names_lead_to_the_extensions_that_declare_them() {
        let of = |name| declaring(name).map(|extension| extension.name).collect::<Vec<_>>();
        assert_eq!(of("digest"), ["pgcrypto"]);
        assert_eq!(of("crypt"), ["pgcrypto"]);
        assert_eq!(of("uuid_nil"), ["uuid-ossp"]);
        assert_eq!(of("akeys"), ["hstore"]);
        assert_eq!(of("%%"), ["hstore"]);
        assert_eq!(of("%"), ["pg_trgm"]);
        assert!(of("lower").is_empty());
        assert!(of("-").is_empty() && of("||").is_empty() && of("->").is_empty());
    }
}
