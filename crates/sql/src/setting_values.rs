//! The values of a session's settings, which follow its transactions as in PostgreSQL.
//!
//! | | after COMMIT | after ROLLBACK, and ROLLBACK TO an earlier savepoint |
//! |---|---|---|
//! | SET | stays | is undone |
//! | SET LOCAL | is undone | is undone |

use crate::savepoints::Savepoints;
use std::collections::BTreeMap;

/// Values by name. Names are in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingValues {
    current: BTreeMap<String, String>,
    /// The values after COMMIT, of settings that SET LOCAL has changed.
    after: BTreeMap<String, Option<String>>,
    /// The changes of the open transaction, the newest last.
    changes: Vec<Change>,
    /// The number of changes before each savepoint of the open transaction.
    savepoints: Savepoints<usize>,
}

/// The values that a change replaced.
#[derive(Clone, Debug)]
struct Change {
    name: String,
    current: Option<String>,
    after: Option<Option<String>>,
}

impl SettingValues {
    /// Creates the values of a new session.
    pub(crate) fn new(current: BTreeMap<String, String>) -> SettingValues {
        SettingValues { current, ..SettingValues::default() }
    }

    /// Returns the value of a setting.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.current.get(name).map(String::as_str)
    }

    /// Returns all settings with their values, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.current.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Changes a setting, until the end of the transaction if it is `local`. `None` removes it.
    pub(crate) fn set(&mut self, name: &str, value: Option<String>, local: bool) {
        let current = put(&mut self.current, name, value);
        let after = self.after.get(name).cloned();
        if !local {
            self.after.remove(name);
        } else if after.is_none() {
            self.after.insert(name.to_owned(), current.clone());
        }
        self.changes.push(Change { name: name.to_owned(), current, after });
    }

    /// Gives a setting a value with which the next transaction begins.
    pub(crate) fn begin_with(&mut self, name: &str, value: String) {
        self.current.insert(name.to_owned(), value);
    }

    /// Begins a savepoint.
    pub(crate) fn savepoint(&mut self, name: &str) {
        self.savepoints.begin(name, self.changes.len());
    }

    /// Removes a savepoint and all later ones.
    pub(crate) fn release(&mut self, name: &str) {
        self.savepoints.release(name);
    }

    /// Undoes the changes since a savepoint.
    pub(crate) fn roll_back_to(&mut self, name: &str) {
        if let Some(before) = self.savepoints.roll_back_to(name).copied() {
            self.undo(before);
        }
    }

    /// Ends a transaction that committed. Returns true if it had changed a setting.
    pub(crate) fn commit(&mut self) -> bool {
        for (name, value) in std::mem::take(&mut self.after) {
            put(&mut self.current, &name, value);
        }
        self.savepoints.clear();
        !std::mem::take(&mut self.changes).is_empty()
    }

    /// Ends a transaction that did not commit. Returns true if it had changed a setting.
    pub(crate) fn roll_back(&mut self) -> bool {
        let changed = !self.changes.is_empty();
        self.undo(0);
        self.savepoints.clear();
        changed
    }

    fn undo(&mut self, until: usize) {
        for Change { name, current, after } in self.changes.drain(until..).rev() {
            put(&mut self.current, &name, current);
            put(&mut self.after, &name, after);
        }
    }
}

/// Sets or removes a value, and returns the one before.
fn put<V>(values: &mut BTreeMap<String, V>, name: &str, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => values.insert(name.to_owned(), value),
        None => values.remove(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> SettingValues {
        SettingValues::new(BTreeMap::from([("a".to_owned(), "0".to_owned())]))
    }

    fn set(values: &mut SettingValues, value: &str, local: bool) {
        values.set("a", Some(value.to_owned()), local);
    }

    #[test]
    fn a_commit_undoes_what_is_local_and_a_rollback_all() {
        let mut values = values();
        set(&mut values, "1", false);
        set(&mut values, "2", true);
        assert_eq!(values.get("a"), Some("2"));
        assert!(values.commit());
        assert_eq!(values.get("a"), Some("1"));
        assert!(!values.commit(), "nothing is left to undo");
        set(&mut values, "2", true);
        set(&mut values, "3", true);
        set(&mut values, "4", false);
        values.commit();
        assert_eq!(values.get("a"), Some("4"), "the newest SET counts");
        set(&mut values, "5", false);
        set(&mut values, "6", true);
        values.set("theirs.b", Some("x".into()), false);
        assert!(values.roll_back());
        assert_eq!((values.get("a"), values.get("theirs.b")), (Some("4"), None));
        values.set("theirs.b", Some("x".into()), true);
        values.commit();
        assert_eq!(values.get("theirs.b"), None);
    }

    #[test]
    fn a_savepoint_keeps_what_was_set_before() {
        let mut values = values();
        set(&mut values, "1", false);
        values.savepoint("s");
        set(&mut values, "2", true);
        values.savepoint("t");
        set(&mut values, "3", false);
        values.roll_back_to("s");
        assert_eq!(values.get("a"), Some("1"));
        set(&mut values, "4", true);
        values.savepoint("u");
        values.release("s");
        values.roll_back_to("u");
        assert_eq!(values.get("a"), Some("4"), "a released savepoint is gone");
        values.commit();
        assert_eq!(values.get("a"), Some("1"));
    }
}
