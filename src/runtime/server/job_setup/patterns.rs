//! Patterns of names of environment variables.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Names of environment variables: exact names, or names with `?` for one character and `*` for the rest.
///
/// ```
/// use modex::EnvironmentPatterns;
///
/// let patterns: EnvironmentPatterns = "OMP_*;TM?DIR".parse()?;
/// assert!(patterns.matches("OMP_NUM_THREADS".as_ref()));
/// assert!(patterns.matches("TMPDIR".as_ref()));
/// assert!(!patterns.matches("HOME".as_ref()));
/// assert!("FOO_[A-Z]".parse::<EnvironmentPatterns>().is_err());
/// # Ok::<(), modex::PatternError>(())
/// ```
///
/// In a text, semicolons separate the patterns. Commas do, too: the parameters of OpenPMIx use them.
///
/// Source: RFC0029.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentPatterns(Vec<Box<str>>);

/// Reason why a text is no list of patterns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The text has no pattern.
    #[error("the list of patterns is empty; give names of variables, separated by semicolons")]
    Empty,
    /// A star that does not end its pattern.
    #[error("{pattern:?} is no pattern of names of variables: '*' stands for the rest of a name, so it comes last")]
    Star {
        /// The pattern.
        pattern: String,
    },
    /// A character that no pattern has.
    #[error(
        "{pattern:?} is no pattern of names of variables: it has {character:?}; \
         use letters, digits, '_', '.', '-', '%', '?' for one character and '*' for the rest"
    )]
    Character {
        /// The pattern.
        pattern: String,
        /// The first such character.
        character: char,
    },
    /// Too many patterns.
    #[error("a job may have {PATTERNS_MAX} patterns of variables; use '*' to name several variables")]
    TooMany,
    /// A pattern that is too long.
    #[error("a pattern of variables has {length} bytes, more than {PATTERN_BYTES_MAX}")]
    TooLong {
        /// Its length.
        length: usize,
    },
}

/// Limit of patterns for one job.
const PATTERNS_MAX: usize = 4096;
/// Limit of one pattern. Names of variables are short.
const PATTERN_BYTES_MAX: usize = 1024;

impl std::str::FromStr for EnvironmentPatterns {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let mut patterns = Self::default();
        for pattern in text.split([';', ',']).map(str::trim).filter(|pattern| !pattern.is_empty()) {
            patterns.push(pattern)?;
        }
        if patterns.0.is_empty() { Err(PatternError::Empty) } else { Ok(patterns) }
    }
}

impl EnvironmentPatterns {
    /// Whether one of the patterns matches the name of a variable.
    #[must_use]
    pub fn matches(&self, name: &OsStr) -> bool {
        self.0.iter().any(|pattern| is_match(pattern.as_bytes(), name.as_bytes()))
    }

    /// Adds the patterns of another list.
    ///
    /// # Errors
    /// [`PatternError::TooMany`]. Then nothing has changed.
    pub(super) fn add(&mut self, more: &Self) -> Result<(), PatternError> {
        let new: Vec<Box<str>> = more.0.iter().filter(|pattern| !self.0.contains(pattern)).cloned().collect();
        if self.0.len().saturating_add(new.len()) > PATTERNS_MAX {
            return Err(PatternError::TooMany);
        }
        self.0.extend(new);
        Ok(())
    }

    fn push(&mut self, pattern: &str) -> Result<(), PatternError> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong { length: pattern.len() });
        }
        let name = pattern.strip_suffix('*').unwrap_or(pattern);
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || "_.-%?".contains(character);
        match name.chars().find(|character| !is_allowed(*character)) {
            None if self.0.len() >= PATTERNS_MAX => Err(PatternError::TooMany),
            None => {
                self.0.push(pattern.into());
                Ok(())
            }
            Some('*') => Err(PatternError::Star { pattern: pattern.to_owned() }),
            Some(character) => Err(PatternError::Character { pattern: pattern.to_owned(), character }),
        }
    }
}

fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([b'*', ..], _) | ([], []) => true,
        ([b'?', pattern @ ..], [_, name @ ..]) => is_match(pattern, name),
        ([wanted, pattern @ ..], [found, name @ ..]) => wanted == found && is_match(pattern, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching<'a>(patterns: &str, names: &[&'a str]) -> Vec<&'a str> {
        let patterns: EnvironmentPatterns = patterns.parse().unwrap();
        names.iter().copied().filter(|name| patterns.matches(OsStr::new(name))).collect()
    }

    #[test]
    fn a_star_stands_for_the_rest_and_a_question_mark_for_one_character() {
        let names = ["A", "AX", "BC", "BXC", "BXXC", "C"];
        assert_eq!(matching("A*", &names), ["A", "AX"]);
        assert_eq!(matching("B?C", &names), ["BXC"]);
        assert_eq!(matching("?", &names), ["A", "C"]);
        assert_eq!(matching("*", &names), names);
        assert_eq!(matching("?X*", &names), ["AX", "BXC", "BXXC"]);
    }

    /// Regression: of `A,B` nothing was forwarded.
    #[test]
    fn semicolons_and_commas_separate_patterns() {
        let names = ["A", "B", "C", "A,B"];
        assert_eq!(matching("A,B", &names), ["A", "B"]);
        assert_eq!(matching(" A ; C;;", &names), ["A", "C"]);
    }

    /// Regression: these matched nothing, or everything, without a word.
    #[test]
    fn a_text_that_is_no_pattern_is_refused() {
        let parse = |text: &str| text.parse::<EnvironmentPatterns>().unwrap_err();
        for (text, character) in
            [("FOO_[A-Z]", '['), ("!x", '!'), ("A;^x", '^'), ("a b", ' '), ("A=1", '='), ("\u{e9}", '\u{e9}')]
        {
            assert!(
                matches!(parse(text), PatternError::Character { character: found, .. } if found == character),
                "{text}"
            );
        }
        for text in ["*OO", "A*B", "A**"] {
            assert!(matches!(parse(text), PatternError::Star { .. }), "{text}");
        }
        for text in ["", " ", ";", ",;,"] {
            assert_eq!(parse(text), PatternError::Empty, "{text:?}");
        }
    }

    #[test]
    fn number_and_length_of_patterns_have_a_bound() {
        let many = |count: usize| (0..count).map(|number| format!("A{number}")).collect::<Vec<_>>().join(";");
        let mut patterns: EnvironmentPatterns = many(PATTERNS_MAX).parse().unwrap();
        assert_eq!(many(PATTERNS_MAX + 1).parse::<EnvironmentPatterns>(), Err(PatternError::TooMany));
        patterns.add(&"A0;A1".parse().unwrap()).unwrap();
        assert_eq!(patterns.add(&"B".parse().unwrap()), Err(PatternError::TooMany));
        let long = "A".repeat(PATTERN_BYTES_MAX + 1);
        assert_eq!(long.parse::<EnvironmentPatterns>(), Err(PatternError::TooLong { length: long.len() }));
    }
}
