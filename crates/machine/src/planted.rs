//! Rules that the lab breaks on purpose, to test whether the judges detect it.
//!
//! Code that keeps a rule first checks `broken(rules::COMMIT_WAIT)`. Without the feature `planted`,
//! which no release has, the check is a constant and is compiled away. With it, a thread may
//! [`plant`] one rule. From then on the assertions of [`always!`](crate::always) are disabled on
//! that thread, so that a judge of client histories or of disks has to detect the error.

use std::fmt;

/// A rule that can be broken. Each is checked in the code that keeps it, and declared in the same
/// folder ([`rules!`](crate::rules)).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rule(
    /// Its name: `COMMIT_WAIT`.
    pub &'static str,
);

impl fmt::Debug for Rule {
    /// Writes `CommitWait`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for word in self.0.split('_') {
            let (first, rest) = word.split_at(1.min(word.len()));
            write!(f, "{first}{}", rest.to_lowercase())?;
        }
        Ok(())
    }
}

/// Declares rules: a constant for each, whose documentation says what happens when it is broken.
#[macro_export]
macro_rules! rules {
    ($($(#[$what:meta])* $name:ident;)*) => {
        $($(#[$what])* pub const $name: $crate::planted::Rule = $crate::planted::Rule(stringify!($name));)*
    };
}

#[cfg(feature = "planted")]
mod switch {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Rule>> = const { Cell::new(None) };
        static SILENT: Cell<bool> = const { Cell::new(false) };
    }

    /// Breaks a rule on this thread from now on, or none. `silent` disables assertions also without
    /// a rule, when something else is broken.
    pub fn plant(rule: Option<Rule>, silent: bool) {
        PLANTED.set(rule);
        SILENT.set(silent || rule.is_some());
    }

    /// True if this thread breaks this rule.
    pub fn broken(rule: Rule) -> bool {
        PLANTED.get() == Some(rule)
    }

    /// True if assertions are disabled on this thread.
    pub fn silent() -> bool {
        SILENT.get()
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    use super::Rule;

    /// Does nothing: nothing can be planted here.
    pub const fn plant(_: Option<Rule>, _: bool) {}

    /// Returns false.
    #[inline(always)]
    pub const fn broken(_: Rule) -> bool {
        false
    }

    /// Returns false.
    #[inline(always)]
    pub const fn silent() -> bool {
        false
    }
}

pub use switch::{broken, plant, silent};

/// True if rules can be planted in this build.
pub const POSSIBLE: bool = cfg!(feature = "planted");

/// Asserts an invariant on every node, in the lab and outside: I1 to I8 of the architecture, and
/// those of a protocol. It is disabled only where the lab has broken something on purpose.
#[macro_export]
macro_rules! always {
    ($holds:expr, $($what:tt)+) => {
        if !$crate::planted::silent() {
            assert!($holds, $($what)+);
        }
    };
}
