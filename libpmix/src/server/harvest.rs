//! Forwarding of environment variables: the user names variables of the starter that the processes of jobs shall have.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use modex::keys;
use modex::types::{Envar, Info, Key, Text, Value};

/// Names of variables to forward, separated by semicolons; `?` stands for one character and `*` for the rest.
///
/// Source: RFC0029.
const PATTERNS: &str = "PMIX_MCA_forward_envars";

/// The variables that match, as directives that set them.
#[expect(clippy::disallowed_methods, reason = "a C server's process is an edge; it has no other configuration")]
pub(super) fn harvested() -> Vec<Info> {
    let patterns = std::env::var_os(PATTERNS).unwrap_or_default();
    let patterns = patterns.to_string_lossy();
    if patterns.is_empty() {
        return Vec::new();
    }
    matching(&patterns, std::env::vars_os())
}

fn matching(patterns: &str, variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<Info> {
    let patterns: Vec<&str> = patterns.split(';').map(str::trim).filter(|pattern| !pattern.is_empty()).collect();
    let wanted =
        variables.filter(|(name, _)| patterns.iter().any(|pattern| is_match(pattern.as_bytes(), name.as_bytes())));
    let mut infos: Vec<Info> = wanted
        .map(|(name, value)| {
            let (name, value) = (Some(Text::until_nul(name.as_bytes())), Some(Text::until_nul(value.as_bytes())));
            let envar = Envar { name, value, separator: 0 };
            Info::new(Key::from_static(keys::SET_ENVAR.name()), Value::Envar(Box::new(envar)))
        })
        .collect();
    // The environment has no order; sorted, two calls give the same.
    infos.sort_by(|a, b| name_of(a).cmp(&name_of(b)));
    infos
}

fn name_of(info: &Info) -> Option<&[u8]> {
    match &info.value {
        Value::Envar(envar) => envar.name.as_ref().map(Text::as_bytes),
        _ => None,
    }
}

fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([b'*', ..], _) => true,
        ([b'?', pattern @ ..], [_, name @ ..]) => is_match(pattern, name),
        ([wanted, pattern @ ..], [found, name @ ..]) => wanted == found && is_match(pattern, name),
        ([], []) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches_a_pattern_is_forwarded_in_order_whatever_bytes_it_has() {
        let variables = [("B1C", "x"), ("AX", "1=2"), ("A", ""), ("BB1C", "x"), ("C", "\u{1b}")];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let infos = matching("A*; B?C;;", variables.into_iter());
        let found = infos.iter().filter_map(|info| match &info.value {
            Value::Envar(envar) => Some((envar.name.as_ref()?.to_string(), envar.value.as_ref()?.to_string())),
            _ => None,
        });
        let found: Vec<_> = found.collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [pair("A", ""), pair("AX", "1=2"), pair("B1C", "x")]);
    }
}
