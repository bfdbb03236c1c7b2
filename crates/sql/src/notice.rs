//! Notices: what a statement tells its client although it succeeds.

use crate::error::{SqlError, state};
use crate::session::Session;

/// The SQLSTATE classes of warnings: transactions and databases; all others are notices.
const WARNINGS: [&str; 3] = ["01", "25", "3D"];

/// True for a warning.
pub fn is_warning(notice: &SqlError) -> bool {
    WARNINGS.iter().any(|class| notice.sqlstate.starts_with(class))
}

/// Makes a notice of the error that a clause such as IF NOT EXISTS has avoided.
pub(crate) fn skipping(mut error: SqlError) -> SqlError {
    error.message.push_str(", skipping");
    error.detail = None;
    error.hint = None;
    error
}

/// Says that IF NOT EXISTS has found a relation.
pub(crate) fn already_exists(name: &str) -> SqlError {
    let message = format!("relation \"{name}\" already exists, skipping");
    SqlError::new(state::DUPLICATE_TABLE, message)
}

/// Says that IF EXISTS has found no object.
pub(crate) fn does_not_exist(kind: &str, name: &str) -> SqlError {
    SqlError::new(state::SUCCESSFUL, format!("{kind} \"{name}\" does not exist, skipping"))
}

/// Says what CASCADE drops.
pub(crate) fn cascades(objects: &[String]) -> Option<SqlError> {
    match objects {
        [] => None,
        [one] => Some(SqlError::new(state::SUCCESSFUL, format!("drop cascades to {one}"))),
        many => {
            let message = format!("drop cascades to {} other objects", many.len());
            let each = many.iter().map(|object| format!("drop cascades to {object}"));
            let detail = each.collect::<Vec<_>>().join("\n");
            Some(SqlError::new(state::SUCCESSFUL, message).detail(detail))
        }
    }
}

impl Session {
    /// Tells the client, unless its `client_min_messages` is above that.
    pub(crate) fn notify(&mut self, notice: SqlError) {
        let least = self.facts.settings.get("client_min_messages").unwrap_or_default();
        let is_wanted = match least.to_ascii_lowercase().as_str() {
            "error" => false,
            "warning" => is_warning(&notice),
            _ => true,
        };
        if is_wanted {
            self.notices.push_back(notice);
        }
    }
}
