use crate::fabric::NAME_BYTES_MAX;

/// A reason to refuse a list of names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostlistError {
    /// A bracket without its partner.
    #[error("{text:?} has a bracket without its partner")]
    Bracket {
        /// The start of the list.
        text: String,
    },
    /// A range is none.
    #[error("{text:?} is no range of numbers")]
    Range {
        /// The start of the range.
        text: String,
    },
    /// A list without names, or a name that is empty or too long.
    #[error("{text:?} has no name, or one of more than {NAME_BYTES_MAX} bytes")]
    Name {
        /// The start of the list.
        text: String,
    },
    /// Too many names.
    #[error("{text:?} has more than {max} names")]
    TooMany {
        /// The start of the list.
        text: String,
        /// The limit.
        max: usize,
    },
}

/// The names of a list like `tux[0-3,12],login`. Brackets may follow each other: `n[1-2]s[0-1]`. Numbers keep their
/// width. As for Slurm, spaces separate names, too, and commas may follow each other.
pub(super) fn expand(list: &str, max: usize) -> Result<Vec<String>, HostlistError> {
    let mut names = Vec::new();
    for pattern in split(list)? {
        // A long name in front of a long range would fill the memory.
        if pattern.split(['[', ']']).step_by(2).any(|literal| literal.len() > NAME_BYTES_MAX) {
            return Err(HostlistError::Name { text: excerpt(list) });
        }
        let mut prefixes = vec![String::new()];
        let mut rest = pattern;
        while let Some((literal, behind)) = rest.split_once('[') {
            let (ranges, behind) =
                behind.split_once(']').ok_or_else(|| HostlistError::Bracket { text: excerpt(list) })?;
            let room = max.saturating_sub(names.len()).checked_div(prefixes.len()).unwrap_or_default();
            let numbers = numbers(ranges, room).ok_or_else(|| HostlistError::Range { text: excerpt(ranges) })?;
            let numbers = numbers.ok_or_else(|| HostlistError::TooMany { text: excerpt(list), max })?;
            let longer =
                |prefix: &String| numbers.iter().map(|number| format!("{prefix}{literal}{number}")).collect::<Vec<_>>();
            prefixes = prefixes.iter().flat_map(longer).collect();
            rest = behind;
        }
        if names.len() + prefixes.len() > max {
            return Err(HostlistError::TooMany { text: excerpt(list), max });
        }
        names.extend(prefixes.into_iter().map(|prefix| prefix + rest));
    }
    if names.is_empty() { Err(HostlistError::Name { text: excerpt(list) }) } else { Ok(names) }
}

/// One name.
pub(super) fn name(text: &str) -> Result<String, HostlistError> {
    let is_name = !text.is_empty() && text.len() <= NAME_BYTES_MAX;
    if is_name { Ok(text.to_owned()) } else { Err(HostlistError::Name { text: excerpt(text) }) }
}

/// The parts between commas and spaces outside brackets.
fn split(list: &str) -> Result<Vec<&str>, HostlistError> {
    let unbalanced = || HostlistError::Bracket { text: excerpt(list) };
    let mut is_inside = false;
    for character in list.chars().filter(|character| matches!(character, '[' | ']')) {
        if is_inside == (character == '[') {
            return Err(unbalanced());
        }
        is_inside = !is_inside;
    }
    if is_inside {
        return Err(unbalanced());
    }
    let mut is_inside = false;
    let is_end = |character: char| {
        is_inside = match character {
            '[' => true,
            ']' => false,
            _ => is_inside,
        };
        (character == ',' || character.is_whitespace()) && !is_inside
    };
    Ok(list.split(is_end).filter(|part| !part.is_empty()).collect())
}

/// The numbers of `0-3,12`, as text of the width of each range's start. The outer `None`: no ranges; the inner: too
/// many.
fn numbers(ranges: &str, max: usize) -> Option<Option<Vec<String>>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let value =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
        let (start, end) = (value(first)?, value(last)?);
        let count = end.checked_sub(start)? as usize + 1;
        if count > max.saturating_sub(numbers.len()) {
            return Some(None);
        }
        let width = first.len().min(NAME_BYTES_MAX);
        numbers.extend((start..=end).map(|number| format!("{number:0width$}")));
    }
    Some(Some(numbers))
}

/// The start of a text, for an error.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}
