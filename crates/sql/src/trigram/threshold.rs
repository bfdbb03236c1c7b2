//! The similarities from which the operators of `pg_trgm` hold: settings of the session.

use crate::error::{SqlError, state};

/// A threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threshold {
    /// That of `%`.
    Similarity,
    /// That of `<%` and `%>`.
    WordSimilarity,
    /// That of `<<%` and `%>>`.
    StrictWordSimilarity,
}

impl Threshold {
    /// The beginning of the settings' names.
    pub(crate) const PREFIX: &'static str = "pg_trgm.";

    const ALL: [Threshold; 3] =
        [Threshold::Similarity, Threshold::WordSimilarity, Threshold::StrictWordSimilarity];

    /// Returns the name of the setting.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Threshold::Similarity => "pg_trgm.similarity_threshold",
            Threshold::WordSimilarity => "pg_trgm.word_similarity_threshold",
            Threshold::StrictWordSimilarity => "pg_trgm.strict_word_similarity_threshold",
        }
    }

    /// Returns the name of the setting and its value by default.
    pub(crate) const fn default_setting(self) -> (&'static str, &'static str) {
        let by_default = match self {
            Threshold::Similarity => "0.3",
            Threshold::WordSimilarity => "0.6",
            Threshold::StrictWordSimilarity => "0.5",
        };
        (self.setting(), by_default)
    }

    /// Finds a threshold by the name of its setting. Fails with 42602 for another name.
    pub(crate) fn of_setting(name: &str) -> Result<Threshold, SqlError> {
        let found = Threshold::ALL.into_iter().find(|threshold| threshold.setting() == name);
        found.ok_or_else(|| {
            let message = format!("invalid configuration parameter name \"{name}\"");
            SqlError::new(state::INVALID_NAME, message).detail("\"pg_trgm\" is a reserved prefix.")
        })
    }

    /// Parses a value of the setting. Fails with 22023 for what is no number from 0 to 1.
    pub(crate) fn parse(self, value: &str) -> Result<f64, SqlError> {
        let invalid = |message| SqlError::new(state::INVALID_PARAMETER, message);
        let name = self.setting();
        match value.trim().parse::<f64>() {
            Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
            Ok(number) if !number.is_nan() => Err(invalid(format!(
                "{number} is outside the valid range for parameter \"{name}\" (0 .. 1)"
            ))),
            _ => Err(invalid(format!("invalid value for parameter \"{name}\": \"{value}\""))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_numbers_from_0_to_1() {
        let parse = |text| Threshold::Similarity.parse(text).map_err(|error| error.message);
        assert_eq!(parse(" 0.25 "), Ok(0.25));
        assert_eq!((parse("0"), parse("1")), (Ok(0.0), Ok(1.0)));
        let name = Threshold::Similarity.setting();
        for text in ["", "x", "NaN", "0.5%"] {
            assert_eq!(
                parse(text),
                Err(format!("invalid value for parameter \"{name}\": \"{text}\""))
            );
        }
        for text in ["1.5", "-1"] {
            let message =
                format!("{text} is outside the valid range for parameter \"{name}\" (0 .. 1)");
            assert_eq!(parse(text), Err(message));
        }
    }

    #[test]
    fn settings_are_found_by_their_names() {
        for threshold in Threshold::ALL {
            assert_eq!(Threshold::of_setting(threshold.setting()).ok(), Some(threshold));
            let (name, by_default) = threshold.default_setting();
            assert!(name.starts_with(Threshold::PREFIX) && threshold.parse(by_default).is_ok());
        }
        let error = Threshold::of_setting("pg_trgm.other").expect_err("no setting");
        assert_eq!(error.sqlstate, state::INVALID_NAME);
    }
}
