//! The options of EXPLAIN.

use crate::error::{SqlError, state};
use sqlparser::ast;

/// The form of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// The options of EXPLAIN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// True if the statement runs.
    pub(crate) analyze: bool,
    /// True to show the outputs of each node.
    pub(crate) verbose: bool,
    pub(super) costs: bool,
    pub(super) timing: bool,
    summary: Option<bool>,
    pub(crate) format: Format,
}

impl Options {
    /// Reads the options of a statement. An option for values that are not measured is refused.
    pub(crate) fn of(
        analyze: bool,
        verbose: bool,
        format: Option<&ast::AnalyzeFormatKind>,
        options: &[ast::UtilityOption],
    ) -> Result<Options, SqlError> {
        let mut read = Options {
            analyze,
            verbose,
            costs: true,
            timing: true,
            summary: None,
            format: Format::Text,
        };
        if format.is_some() {
            return Err(SqlError::new(state::SYNTAX, "FORMAT stands in parentheses")
                .hint("For example, EXPLAIN (ANALYZE, FORMAT JSON) SELECT …."));
        }
        let mut timing = None;
        for ast::UtilityOption { name, arg } in options {
            let name = name.value.to_lowercase();
            let value = arg.as_ref().map(|arg| arg.to_string().to_lowercase());
            let value = value.as_deref().map(|value| value.trim_matches('\''));
            if name == "format" {
                read.format = match value {
                    Some("text") => Format::Text,
                    Some("json") => Format::Json,
                    Some(other @ ("xml" | "yaml")) => {
                        return Err(SqlError::unsupported(format!("EXPLAIN with FORMAT {other}")));
                    }
                    other => {
                        let message = format!(
                            "unrecognized value for EXPLAIN option \"format\": \"{}\"",
                            other.unwrap_or("")
                        );
                        return Err(SqlError::new("22023", message));
                    }
                };
                continue;
            }
            let is_on = match value {
                None | Some("true" | "on" | "1") => true,
                Some("false" | "off" | "0") => false,
                Some(_) => {
                    let message = format!("{name} requires a Boolean value");
                    return Err(SqlError::new(state::SYNTAX, message));
                }
            };
            match name.as_str() {
                "analyze" => read.analyze = is_on,
                "verbose" => read.verbose = is_on,
                "costs" => read.costs = is_on,
                "timing" => timing = Some(is_on),
                "summary" => read.summary = Some(is_on),
                "buffers" | "settings" | "wal" | "generic_plan" if !is_on => {}
                "buffers" | "settings" | "wal" | "generic_plan" => {
                    return Err(SqlError::unsupported(format!("EXPLAIN's option {name}"))
                        .hint("It would show what Meridian does not have; leave it out."));
                }
                _ => {
                    let message = format!("unrecognized EXPLAIN option \"{name}\"");
                    return Err(SqlError::new(state::SYNTAX, message));
                }
            }
        }
        if timing == Some(true) && !read.analyze {
            return Err(SqlError::new("22023", "EXPLAIN option TIMING requires ANALYZE"));
        }
        read.timing = timing.unwrap_or(true);
        Ok(read)
    }

    /// True to show the times of the whole statement.
    pub(super) fn shows_summary(&self) -> bool {
        self.summary.unwrap_or(self.analyze)
    }
}
