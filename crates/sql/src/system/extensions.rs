//! The rows about extensions: those that are built in, and those that the database has.

use super::{OWNER, Rows, SystemContext, Writer};
use crate::extension::{ALL, Extension};

pub(super) fn rows_of(name: &str) -> Option<Rows> {
    Some(match name {
        "pg_available_extension_versions" => versions,
        "pg_available_extensions" => available,
        "pg_extension" => installed,
        _ => return None,
    })
}

/// Returns the version of an extension that the database has.
fn installed_version<'a>(context: &'a SystemContext<'_>, extension: &Extension) -> Option<&'a str> {
    let found = context.catalog.extensions.iter().find(|it| it.name == extension.name);
    found.map(|it| it.release.as_str())
}

fn available(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for extension in ALL {
        out.row(&[
            ("name", extension.name.into()),
            ("default_version", extension.version.into()),
            ("installed_version", installed_version(context, extension).into()),
            ("comment", extension.comment.into()),
        ]);
    }
}

fn versions(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for extension in ALL {
        let is_installed = installed_version(context, extension) == Some(extension.version);
        out.row(&[
            ("name", extension.name.into()),
            ("version", extension.version.into()),
            ("installed", is_installed.into()),
            ("superuser", true.into()),
            ("trusted", true.into()),
            ("relocatable", true.into()),
            ("comment", extension.comment.into()),
        ]);
    }
}

fn installed(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for extension in &context.catalog.extensions {
        out.row(&[
            ("oid", extension.id.into()),
            ("extname", extension.name.as_str().into()),
            ("extowner", OWNER.into()),
            ("extnamespace", extension.schema.into()),
            ("extrelocatable", true.into()),
            ("extversion", extension.release.as_str().into()),
        ]);
    }
}
