//! The savepoints of a transaction.

/// Savepoints by name, the newest last, each with the state that ROLLBACK TO restores.
#[derive(Clone, Debug)]
pub(crate) struct Savepoints<T>(Vec<(String, T)>);

impl<T> Default for Savepoints<T> {
    fn default() -> Self {
        Savepoints(Vec::new())
    }
}

impl<T> Savepoints<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Begins a savepoint. It hides an earlier one of its name.
    pub(crate) fn begin(&mut self, name: &str, state: T) {
        self.0.push((name.to_owned(), state));
    }

    /// Removes a savepoint and all later ones. Returns false if there is none of the name.
    pub(crate) fn release(&mut self, name: &str) -> bool {
        let found = self.find(name);
        self.0.truncate(found.unwrap_or(self.0.len()));
        found.is_some()
    }

    /// Removes all later savepoints, and returns the state of one; `None` if there is none of the
    /// name.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> Option<&T> {
        let at = self.find(name)?;
        self.0.truncate(at + 1);
        self.0.last().map(|(_, state)| state)
    }

    /// Returns the state of the newest one.
    pub(crate) fn newest(&self) -> Option<&T> {
        self.0.last().map(|(_, state)| state)
    }

    /// Removes all, at the end of the transaction.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().rposition(|(other, _)| other == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_name_is_found_and_later_ones_go() {
        let mut savepoints = Savepoints::default();
        for (name, state) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
            savepoints.begin(name, state);
        }
        assert_eq!(savepoints.roll_back_to("a"), Some(&3));
        assert_eq!(savepoints.roll_back_to("c"), None);
        assert!(savepoints.release("a"));
        assert_eq!(savepoints.roll_back_to("a"), Some(&1));
        assert_eq!(savepoints.roll_back_to("b"), None);
        assert!(!savepoints.release("b"));
        assert!(savepoints.release("a") && savepoints.is_empty());
    }
}
