//! Calls of functions and operators of extensions: their forms beside those of PostgreSQL.

use super::call::Parts;
use super::{Binder, Typed};
use crate::error::SqlError;
use crate::extension::{self, Extension};
use crate::function::{self, Function};
use crate::names::{self, Qualified};
use crate::types::Type;
use crate::view::Mention;
use sqlparser::ast;
use std::borrow::Cow;

impl Binder {
    /// True if a call means a function of an extension. Without a schema, one that has the name of
    /// one of PostgreSQL's is chosen among both by its arguments.
    pub(super) fn is_extension_call(&self, name: &ast::ObjectName) -> bool {
        let Ok(name) = names::relation(name) else { return false };
        name.extension().is_some()
            || self.of_extensions(&name).next().is_some() && !is_of_postgresql(&name)
    }

    /// Iterates over the extensions that have a function of a name, with their ids.
    fn of_extensions(&self, name: &Qualified) -> impl Iterator<Item = (u32, &'static Extension)> {
        let all = self.extensions.iter().filter(move |(other, ..)| other == name);
        all.map(|(_, id, extension)| (*id, *extension))
    }

    /// Binds a call of a function of an extension. Fails with 0A000 if the database has a function
    /// of the name, too, or if the function is not built.
    pub(super) fn extension_call(&mut self, call: &ast::Function) -> Result<Typed, SqlError> {
        let parts = Parts::of(call)?;
        if let Some(error) = parts.not_an_aggregate() {
            return Err(error);
        }
        self.mention_extension(&call.name)?;
        let mut args = self.bind_arguments(&parts.name, &parts.args)?;
        if let Some(ty) = self.type_before_literal(&parts.name, &args) {
            return Ok(Typed::of(self.coerce(args.remove(0), ty, true)?, ty));
        }
        let is_stored = names::relation(&call.name)?.extension().is_some();
        let forms = match is_stored {
            true => extension::stored_forms(&parts.name).into(),
            false => self.forms(&parts.name),
        };
        self.apply_among(&parts.name, &forms, args)
    }

    /// Notes that the text of a new view names a function of an extension. Fails as
    /// [`Binder::extension_call`] does.
    pub(super) fn mention_extension(&mut self, written: &ast::ObjectName) -> Result<(), SqlError> {
        let name = names::relation(written)?;
        let found: Vec<_> = self.of_extensions(&name).collect();
        found.iter().try_for_each(|(_, extension)| extension.refuse(&name.name))?;
        if self.functions.iter().any(|(other, _)| *other == name) {
            let what = format!("the function {name} of an extension, which a schema has, too,");
            return Err(SqlError::unsupported(what));
        }
        if let (Some(mentions), [(id, _), ..]) = (&mut self.mentions, &*found) {
            if name.extension().is_none() {
                mentions.extend(Mention::of_extension(written, *id));
            }
            self.called.push(*id);
        }
        Ok(())
    }

    /// Returns the forms of a function or an operator: those of PostgreSQL, and those of extensions
    /// whose parameters differ from these.
    pub(super) fn forms(&self, name: &str) -> Cow<'static, [&'static Function]> {
        let own = function::named(name);
        let of_name = self.extensions.iter().filter(|(other, ..)| other.name == name);
        let mut all: Cow<'_, [&'static Function]> = own.into();
        for form in of_name.flat_map(|(_, _, extension)| extension.forms(name)) {
            if all.iter().all(|other| other.params != form.params) {
                all.to_mut().push(form);
            }
        }
        all
    }

    /// Returns some forms of a function or an operator, and those of the extensions that have the
    /// types of its arguments: values of these tell that there is the extension. Fails with 0A000
    /// if such an extension does not have it built, or if an operator of an extension stands in a
    /// stored expression, which does not tell where it is found.
    pub(super) fn with_forms_of_types<'f>(
        &self,
        name: &str,
        forms: &'f [&'static Function],
        types: &[Option<Type>],
    ) -> Result<Cow<'f, [&'static Function]>, SqlError> {
        let mut all: Cow<'f, [&'static Function]> = forms.into();
        for extension in types.iter().flatten().filter_map(|ty| extension::of_type(*ty)) {
            extension.refuse(name)?;
            for form in extension.forms(name) {
                if all.iter().all(|other| other.params != form.params) {
                    all.to_mut().push(form);
                }
            }
        }
        let is_stored = self.tables.is_none();
        if all.is_empty()
            && is_stored
            && function::is_operator(name)
            && let Some(Extension { name: of, .. }) = extension::declaring(name).next()
        {
            let what = format!("the operator {name} of the extension {of} in this expression");
            return Err(SqlError::unsupported(what));
        }
        Ok(all)
    }
}

/// True if a name without a schema is that of a function that every database has.
pub(crate) fn is_of_postgresql(name: &Qualified) -> bool {
    name.schema.is_none() && crate::user_function::is_known(&name.name)
}
