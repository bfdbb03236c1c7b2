//! Rules that the lab breaks on purpose, to see whether anybody notices.
//!
//! A place that keeps a rule asks `broken(rules::COMMIT_WAIT)` first. Without the feature
//! `planted`, which nothing that ships has, that is a constant, and nothing is left of it. With it
//! a thread may [`plant`] one rule; from then on the assertions of [`always!`](crate::always) are
//! silent on that thread: who notices has to be a judge of what clients saw, or of what disks hold.

use std::fmt;

/// A rule that can be broken. Each is kept in one line somewhere, and declared in the folder of
/// what keeps it ([`rules!`](crate::rules)).
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

/// Declares rules: a constant for each, with what happens when it is broken.
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

    /// From now on this thread breaks this rule, or none. `silent`: something else is broken, and
    /// assertions are to say nothing of it.
    pub fn plant(rule: Option<Rule>, silent: bool) {
        PLANTED.set(rule);
        SILENT.set(silent || rule.is_some());
    }

    /// Whether this thread breaks this rule.
    pub fn broken(rule: Rule) -> bool {
        PLANTED.get() == Some(rule)
    }

    /// Whether assertions are silent on this thread.
    pub fn silent() -> bool {
        SILENT.get()
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    use super::Rule;

    /// Does nothing: nothing can be planted here.
    pub const fn plant(_: Option<Rule>, _: bool) {}

    /// Never.
    #[inline(always)]
    pub const fn broken(_: Rule) -> bool {
        false
    }

    /// Never.
    #[inline(always)]
    pub const fn silent() -> bool {
        false
    }
}

pub use switch::{broken, plant, silent};

/// Whether rules can be planted at all.
pub const POSSIBLE: bool = cfg!(feature = "planted");

/// What holds always, in every node, in the lab and outside: I1 to I8 of the architecture, and what
/// a protocol rests on besides. It is silent only where the lab has broken something on purpose.
#[macro_export]
macro_rules! always {
    ($holds:expr, $($what:tt)+) => {
        if !$crate::planted::silent() {
            assert!($holds, $($what)+);
        }
    };
}
