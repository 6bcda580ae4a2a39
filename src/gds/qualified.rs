//! Qualified values: one key with several values that differ in their qualifiers.
//!
//! Such a value is an array of infos under `PMIX_QUALIFIED_VALUE`: first the key with its value, then the qualifiers,
//! each flagged as one. It is stored unchanged under a name derived from the key and the qualifiers. Blocks, columns,
//! scopes and realms treat it like any other value: equal qualifiers replace, different ones coexist. Outside the store
//! it is called `PMIX_QUALIFIED_VALUE` again. The names begin with a NUL, which no other key has, so no user's key
//! collides with them.
//!
//! A Get with flagged infos finds the values of its key that have all of them. A Get without flagged infos finds none
//! of these values.
//!
//! Source: the reference (4.1 and later); the standard has the flag alone (chapter "Data Structures and Types").

use std::borrow::Borrow;
use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use super::layout::cell::Encoded;
use crate::keys;
use crate::types::{Info, InfoFlags, Key, KeyError, Kval, Value};

/// The key of qualified values on the wire and in arrays.
pub const QUALIFIED_VALUE: &str = keys::QUALIFIED_VALUE.name();

/// A qualified value, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Qualified<'v> {
    first: &'v Info,
    infos: &'v [Value],
}

impl<'v> Qualified<'v> {
    /// Takes a value under `PMIX_QUALIFIED_VALUE` apart; `None` if it is not an array of infos, or its first info has
    /// no key.
    #[must_use]
    pub fn of(value: &'v Value) -> Option<Self> {
        let Value::DataArray(array) = value else { return None };
        let infos = array.elements.as_slice();
        infos.iter().all(|element| matches!(element, Value::Info(_))).then_some(())?;
        match infos.first() {
            Some(Value::Info(first)) if !first.key.as_str().is_empty() => Some(Self { first, infos }),
            _ => None,
        }
    }

    /// The key with its value.
    #[must_use]
    pub const fn first(&self) -> &'v Info {
        self.first
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> &'v Key {
        &self.first.key
    }

    /// The value.
    #[must_use]
    pub const fn value(&self) -> &'v Value {
        &self.first.value
    }

    /// The infos flagged as qualifiers, behind the first info.
    pub fn qualifiers(&self) -> impl Iterator<Item = &'v Info> {
        let behind = self.infos.iter().skip(1);
        behind
            .filter_map(|element| if let Value::Info(info) = element { Some(&**info) } else { None })
            .filter(is_qualifier)
    }

    /// The stored name; the key itself without qualifiers.
    #[must_use]
    pub fn name(&self) -> Key {
        let mut qualifiers: Vec<Vec<u8>> = self.qualifiers().map(spelled_out).collect();
        if qualifiers.is_empty() {
            return self.key().clone();
        }
        qualifiers.sort();
        let key = xxh3_64(self.key().as_str().as_bytes());
        Key::internal(&text_of_name(key, xxh3_64(&qualifiers.concat())))
    }
}

/// The key and the qualifiers of a Get. A qualifier that is given twice counts once.
#[derive(Clone, Debug)]
pub struct Pattern<'k> {
    key: &'k str,
    /// Spelled out, in the order of a stored name.
    qualifiers: BTreeSet<Vec<u8>>,
}

impl<'k> Pattern<'k> {
    /// The pattern of these qualifiers. Without any, no value fits.
    #[must_use]
    pub fn new(key: &'k str, qualifiers: &[Info]) -> Self {
        Self { key, qualifiers: qualifiers.iter().map(spelled_out).collect() }
    }

    /// The number of a value's other qualifiers; `None` if it has another key or lacks a wanted qualifier. Qualifiers
    /// are compared as they are stored: floating-point numbers by their bits.
    #[must_use]
    pub fn others(&self, value: &Value) -> Option<usize> {
        let qualified = Qualified::of(value).filter(|qualified| qualified.key().as_str() == self.key)?;
        let count = qualified.qualifiers().count();
        if self.qualifiers.is_empty() || count < self.qualifiers.len() {
            return None;
        }
        let present: BTreeSet<Vec<u8>> = qualified.qualifiers().map(spelled_out).collect();
        self.qualifiers.is_subset(&present).then(|| count.saturating_sub(self.qualifiers.len()))
    }

    /// Number of different qualifiers.
    pub(super) fn count(&self) -> usize {
        self.qualifiers.len()
    }

    /// The [`qualifier_hash`] of each.
    pub(super) fn hashes(&self) -> Vec<u64> {
        self.qualifiers.iter().map(|spelled| xxh3_64(spelled)).collect()
    }

    /// The stored name of a value with exactly these qualifiers.
    pub(super) fn exact_name(&self) -> String {
        let spelled: Vec<&[u8]> = self.qualifiers.iter().map(Vec::as_slice).collect();
        name_of(xxh3_64(self.key.as_bytes()), xxh3_64(&spelled.concat()))
    }
}

/// The hash of a qualifier as it is stored.
pub(super) fn qualifier_hash(qualifier: &Info) -> u64 {
    xxh3_64(&spelled_out(qualifier))
}

/// The stored name with these hashes of the key and of the qualifiers.
pub(super) fn name_of(key: u64, qualifiers: u64) -> String {
    format!("\0{}", text_of_name(key, qualifiers))
}

/// A stored name without its NUL.
fn text_of_name(key: u64, qualifiers: u64) -> String {
    format!("{MARK}{key:016x}{qualifiers:016x}")
}

/// The hashes of key and qualifiers in a stored name; `None` for other names.
pub(super) fn hashes_in(name: &str) -> Option<(u64, u64)> {
    let digits = name.strip_prefix('\0')?.strip_prefix(MARK)?;
    let (key, qualifiers) = digits.split_at_checked(16).filter(|_| digits.len() == 32)?;
    Some((u64::from_str_radix(key, 16).ok()?, u64::from_str_radix(qualifiers, 16).ok()?))
}

/// A qualifier as bytes: unique, also when concatenated.
fn spelled_out(Info { key, value, .. }: &Info) -> Vec<u8> {
    let mut bytes = [key.as_str().as_bytes(), &[0]].concat();
    bytes.extend(value.data_type().to_raw().to_le_bytes());
    let value = Encoded::new(value, u32::MAX).map(|encoded| encoded.identity().hash_bytes()).unwrap_or_default();
    bytes.extend(value.len().to_le_bytes());
    bytes.extend(value);
    bytes
}

/// Whether one of the values would replace the other.
#[must_use]
pub fn is_same_place(one: &Kval, other: &Kval) -> bool {
    let name = |entry: &Kval| stored(entry.key.clone(), entry.value.clone()).0;
    one.key == other.key && (one.key.as_str() != QUALIFIED_VALUE || name(one) == name(other))
}

/// The stored name and value: qualified values have names of their own.
#[must_use]
pub fn stored(key: Key, value: Value) -> (Key, Value) {
    if key.as_str() != QUALIFIED_VALUE {
        return (key, value);
    }
    match Qualified::of(&value) {
        Some(qualified) if qualified.qualifiers().next().is_none() => {
            (qualified.key().clone(), qualified.value().clone())
        }
        Some(qualified) => (qualified.name(), value),
        None => (key, value),
    }
}

/// The public key of a stored name.
#[must_use]
pub fn public_key(key: Key) -> Key {
    if is_qualified(key.as_str()) { Key::from_static(QUALIFIED_VALUE) } else { key }
}

/// As [`public_key`], for a name in a segment.
#[must_use]
pub fn public_name(name: &str) -> &str {
    if is_qualified(name) { QUALIFIED_VALUE } else { name }
}

/// The key of a stored name.
///
/// # Errors
/// [`KeyError`] if the name is neither a key's nor a qualified value's.
pub fn stored_key(name: &str) -> Result<Key, KeyError> {
    match name.strip_prefix('\0').filter(|text| text.starts_with(MARK) && text.len() < Key::SIZE_BYTES_MAX) {
        Some(text) => Ok(Key::internal(text)),
        None => Key::new(name.to_owned()),
    }
}

/// Whether this is the name of a qualified value.
#[must_use]
pub fn is_qualified(name: &str) -> bool {
    name.strip_prefix('\0').is_some_and(|text| text.starts_with(MARK))
}

/// The common prefix of the names of a key's qualified values.
#[must_use]
pub fn prefix(key: &str) -> String {
    format!("\0{MARK}{:016x}", xxh3_64(key.as_bytes()))
}

/// The flagged infos among directives.
#[must_use]
pub fn qualifiers(directives: &[Info]) -> Vec<Info> {
    directives.iter().filter(is_qualifier).cloned().collect()
}

/// The value that fits the qualifiers best: the fewest others, then the first.
#[must_use]
pub fn best<V: Borrow<Value>>(key: &str, wanted: &[Info], values: impl Iterator<Item = V>) -> Option<V> {
    let pattern = Pattern::new(key, wanted);
    let fits = |value: V| Some((pattern.others(value.borrow())?, value));
    values.filter_map(fits).min_by_key(|(others, _)| *others).map(|(_, value)| value)
}

/// The value of a qualified value, without key and qualifiers.
#[must_use]
pub fn inner(value: &Value) -> Option<Value> {
    Qualified::of(value).map(|qualified| qualified.value().clone())
}

fn is_qualifier(info: &&Info) -> bool {
    info.flags().contains(InfoFlags::QUALIFIER)
}

/// The mark behind the NUL in the name of a qualified value.
const MARK: &str = "qualified.";

#[cfg(test)]
mod tests {
    use super::*;

    fn info(key: &str, value: impl Into<Value>) -> Info {
        Info::new(Key::new(key.to_owned()).unwrap(), value)
    }

    fn qualifier(key: &str, value: impl Into<Value>) -> Info {
        Info { flags: InfoFlags::QUALIFIER.bits(), ..info(key, value) }
    }

    fn name(infos: Vec<Info>) -> String {
        Qualified::of(&Value::info_array(infos)).unwrap().name().as_str().to_owned()
    }

    #[test]
    fn a_name_follows_from_key_and_qualifiers_in_any_order() {
        let of = |a: u32, b: &str| [info("k", 1_u32), qualifier("a", a), qualifier("b", b)];
        let [k, a, b] = of(1, "x");
        assert_eq!(name(vec![k.clone(), a.clone(), b.clone()]), name(vec![info("k", 2_u32), b.clone(), a.clone()]));
        assert_ne!(name(vec![k.clone(), a.clone(), b]), name(of(1, "y").to_vec()));
        assert_ne!(name(vec![k.clone(), a]), name(vec![k.clone(), qualifier("a", 1_u64)]), "types count");
        assert!(name(of(1, "x").to_vec()).starts_with(&prefix("k")));
        assert_eq!(name(vec![k, info("a", 1_u32)]), "k", "what is not flagged does not qualify");
    }

    #[test]
    fn a_malformed_qualified_value_stays_as_it_is() {
        for value in [Value::Uint32(1), Value::info_array(Vec::new())] {
            let key = Key::from_static(QUALIFIED_VALUE);
            assert_eq!(stored(key.clone(), value.clone()), (key, value));
        }
        let plain = Value::info_array(vec![info("k", 1_u32)]);
        assert_eq!(stored(Key::from_static(QUALIFIED_VALUE), plain), (Key::from_static("k"), Value::Uint32(1)));
    }

    #[test]
    fn the_value_with_the_fewest_other_qualifiers_is_the_best() {
        let value =
            |number: u32, qualifiers: Vec<Info>| Value::info_array([vec![info("k", number)], qualifiers].concat());
        let (a, b) = (qualifier("a", 1_u32), qualifier("b", 2_u32));
        let stored = [value(1, vec![a.clone(), b.clone()]), value(2, vec![a.clone()]), value(3, vec![b.clone()])];
        let find = |wanted: &[Info]| best("k", wanted, stored.iter()).and_then(inner);
        assert_eq!(find(std::slice::from_ref(&a)), Some(Value::Uint32(2)));
        assert_eq!(find(&[b.clone(), a.clone()]), Some(Value::Uint32(1)));
        assert_eq!(find(&[b]), Some(Value::Uint32(3)));
        assert_eq!(find(&[a.clone(), qualifier("c", 1_u32)]), None);
        assert_eq!(find(&[a.clone(), a]), Some(Value::Uint32(2)), "twice the same counts once");
        assert_eq!(find(&[]), None);
    }

    #[test]
    fn a_pattern_knows_the_name_of_the_value_that_has_nothing_else() {
        let (a, b) = (qualifier("a", 1_u32), qualifier("b", "x"));
        let name = name(vec![info("k", 7_u32), a.clone(), b.clone()]);
        assert_eq!(Pattern::new("k", &[b.clone(), a.clone(), b]).exact_name(), name);
        let (key, qualifiers) = hashes_in(&name).unwrap();
        assert_eq!(name_of(key, qualifiers), name);
        assert!([&name[..40], "\0qualified.", "k"].iter().all(|other| hashes_in(other).is_none()));
    }
}
