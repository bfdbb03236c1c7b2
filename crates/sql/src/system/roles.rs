//! The rows of `pg_roles`, `pg_authid` and `pg_user`.

use super::{OWNER, SystemContext, Writer};

pub(super) fn roles(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[
        ("oid", OWNER.into()),
        ("rolname", context.facts.user.as_str().into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", true.into()),
        ("rolcreatedb", true.into()),
        ("rolcanlogin", true.into()),
        ("rolbypassrls", true.into()),
        ("rolreplication", true.into()),
        ("rolconnlimit", (-1).into()),
    ]);
    for (oid, name) in super::ROLES {
        out.row(&[
            ("oid", oid.into()),
            ("rolname", name.into()),
            ("rolinherit", true.into()),
            ("rolconnlimit", (-1).into()),
        ]);
    }
}

pub(super) fn user(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    out.row(&[
        ("usename", context.facts.user.as_str().into()),
        ("usesysid", OWNER.into()),
        ("usecreatedb", true.into()),
        ("usesuper", true.into()),
        ("userepl", true.into()),
        ("usebypassrls", true.into()),
    ]);
}
