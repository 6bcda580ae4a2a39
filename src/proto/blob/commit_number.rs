//! The last of a process's commits that its values include, sent where only our own servers look.
//!
//! As a separate entry it would end every fence with a stock server, because 4.2 and 5.0 refuse reserved keys outside
//! their dictionary. Any other key would appear among the clients' values. So it travels behind the NUL of a process's
//! first key (see [`crate::bfrops::wire::AnnotatedKey`]). If all processes share one list of keys, the list's first key
//! carries the numbers of all of them.

use crate::types::{Key, Kval};

/// Ours: the entry with the number of the last commit that a process's values include. It stands among the values
/// inside a server, and never on the wire.
pub const COMMIT_NUMBER: Key = Key::from_static("pmix.modex.commit");

const MARK: &[u8] = b"modex.commit=";

/// The entries that are sent as entries.
pub(super) fn values(entries: &[Kval]) -> impl Iterator<Item = &Kval> {
    entries.iter().filter(|entry| entry.key != COMMIT_NUMBER)
}

/// The number among the entries of one process.
fn number(entries: &[Kval]) -> Option<u64> {
    entries.iter().find(|entry| entry.key == COMMIT_NUMBER)?.value.as_u64()
}

/// The note behind a key for these processes, in their order; empty if none has a number.
pub(super) fn note<'a>(processes: impl Iterator<Item = &'a [Kval]>) -> Vec<u8> {
    let numbers: Vec<Option<u64>> = processes.map(number).collect();
    if numbers.iter().all(Option::is_none) {
        return Vec::new();
    }
    let texts: Vec<String> =
        numbers.iter().map(|number| number.map_or_else(String::new, |number| number.to_string())).collect();
    [MARK, texts.join(",").as_bytes()].concat()
}

/// The numbers in a note, by process. Foreign text behind a key yields none.
pub(super) fn read_note(note: &[u8]) -> impl Iterator<Item = Option<u64>> {
    let texts = note.strip_prefix(MARK).map(|texts| texts.split(|&byte| byte == b','));
    texts.into_iter().flatten().map(number_in)
}

fn number_in(text: &[u8]) -> Option<u64> {
    let digits = (!text.is_empty()).then(|| text.iter())?;
    digits.copied().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Puts a number back among the entries of its process.
pub(super) fn restore(entries: &mut Vec<Kval>, number: Option<u64>) {
    if let Some(number) = number.filter(|_| !entries.is_empty()) {
        entries.push(Kval { key: COMMIT_NUMBER, value: number.into() });
    }
}
