//! The rows of `pg_settings` and `pg_db_role_setting`.

use super::{SystemContext, Writer};
use crate::array::Array;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::types::Type;

pub(super) fn settings(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    for setting in context.facts.settings.described() {
        let kind = ValueKind::of(setting.name, setting.by_default);
        let fixed = crate::settings::FIXED.contains(&setting.name);
        out.row(&[
            ("name", crate::settings::shown_name(setting.name).into()),
            ("setting", setting.value.into()),
            ("category", "Client Connection Defaults".into()),
            ("context", if fixed { "internal" } else { "user" }.into()),
            ("unit", kind.unit().into()),
            ("vartype", kind.name().into()),
            ("source", setting.source.into()),
            ("boot_val", setting.by_default.into()),
            ("reset_val", setting.initial.into()),
        ]);
    }
}

/// The kind of a setting's values.
enum ValueKind {
    Bool,
    Enum,
    Integer,
    Milliseconds,
    String,
}

impl ValueKind {
    fn of(name: &str, by_default: &str) -> ValueKind {
        const ENUMS: [&str; 6] = [
            "bytea_output",
            "client_min_messages",
            "default_transaction_isolation",
            "intervalstyle",
            "transaction_isolation",
            "xmloption",
        ];
        match name {
            _ if name.ends_with("_timeout") => ValueKind::Milliseconds,
            _ if ENUMS.iter().any(|it| it.eq_ignore_ascii_case(name)) => ValueKind::Enum,
            _ if matches!(by_default, "on" | "off") => ValueKind::Bool,
            _ if by_default.parse::<i64>().is_ok() => ValueKind::Integer,
            _ => ValueKind::String,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            ValueKind::Bool => "bool",
            ValueKind::Enum => "enum",
            ValueKind::Integer | ValueKind::Milliseconds => "integer",
            ValueKind::String => "string",
        }
    }

    fn unit(&self) -> Option<&'static str> {
        matches!(self, ValueKind::Milliseconds).then_some("ms")
    }
}

pub(super) fn db_role_setting(context: &SystemContext<'_>, out: &mut Writer<'_>) {
    let Some(server_info) = context.facts.server_info() else { return };
    for name in server_info.databases() {
        let settings = server_info.settings(&name).into_iter();
        let settings = settings.map(|(name, of)| Datum::text(format!("{name}={of}")));
        let settings: Vec<Datum> = settings.collect();
        if settings.is_empty() {
            continue;
        }
        if let Ok(list) = Array::of(Type::Text, settings) {
            let mut shown = String::new();
            list.write_text(Zone::utc(), &mut shown);
            out.row(&[
                ("setdatabase", super::activity::database_id(&name).into()),
                ("setconfig", shown.into()),
            ]);
        }
    }
}
