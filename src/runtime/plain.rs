//! Values as clients of other libraries can use them. They get as a string's bytes, or crash over, what another client
//! compressed, and copy a map with a size that they never set.

use std::borrow::Cow;

use super::inflated::unpacked;
use crate::proto::Reply;
use crate::types::{Kval, Text, Value};

/// The same with the text of each map in its place, and with strings as they were put. What can't be unpacked, or not
/// within this many bytes together with what was before it, is left out: nobody would find it anyway.
pub(super) fn plain(reply: &Reply, unpacked_bytes_max: usize) -> Cow<'_, Reply> {
    let is_plain = |entry: &Kval| !matches!(entry.value, Value::Regex(_) | Value::CompressedString(_));
    let Reply::Data(data) = reply else { return Cow::Borrowed(reply) };
    if data.iter().all(|of| of.entries.iter().all(is_plain)) {
        return Cow::Borrowed(reply);
    }
    let mut data = data.clone();
    let mut left = unpacked_bytes_max;
    for of in &mut data {
        of.entries.retain_mut(|entry| make_plain(entry, &mut left));
    }
    Cow::Owned(Reply::Data(data))
}

/// Whether the entry stays.
fn make_plain(entry: &mut Kval, left: &mut usize) -> bool {
    let text = match &entry.value {
        Value::Regex(bytes) => Text::until_nul(bytes),
        Value::CompressedString(bytes) => match unpacked(bytes, *left) {
            Ok(text) => {
                *left = left.saturating_sub(text.as_bytes().len());
                text
            }
            Err(error) => {
                tracing::warn!(key = %entry.key, %error, "a value that a client compressed is kept from those of other libraries");
                return false;
            }
        },
        _ => return true,
    };
    entry.value = Value::String(text);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::deflated;
    use crate::proto::RankData;
    use crate::types::{Key, Namespace, ProcId, Rank};

    fn reply(entries: &[(&'static str, Value)]) -> Reply {
        let proc = ProcId::new(Namespace::new("job").unwrap(), Rank::from(0));
        let entry = |(key, value): &(&'static str, Value)| Kval { key: Key::from_static(key), value: value.clone() };
        Reply::Data(vec![RankData { proc, entries: entries.iter().map(entry).collect() }])
    }

    /// A client of 4.2 that read a long string of one of 5.0 was killed; those of 5.0 and 6.1 got its compressed bytes.
    #[test]
    fn strings_are_as_they_were_put() {
        let text = "x".repeat(5000);
        let compressed = Value::CompressedString(deflated(text.as_bytes(), 5000));
        let mixed = reply(&[("a", Value::from(1_u32)), ("b", compressed.clone()), ("c", compressed)]);
        let whole = reply(&[("a", 1_u32.into()), ("b", text.as_str().into()), ("c", text.as_str().into())]);
        assert_eq!(*plain(&mixed, 10_000), whole);
        let first = reply(&[("a", Value::from(1_u32)), ("b", text.as_str().into())]);
        assert_eq!(*plain(&mixed, 9_999), first, "the bound is for all together");
    }

    #[test]
    fn what_can_not_be_unpacked_is_left_out() {
        let bomb = Value::CompressedString(deflated(&vec![0; 1 << 20], u32::MAX));
        let liar = Value::CompressedString(deflated(&[0; 100], 10));
        let rest = [("n", Value::from(1_u32))];
        let mixed = reply(&[("bomb", bomb), ("liar", liar), rest[0].clone()]);
        assert_eq!(*plain(&mixed, 1 << 20), reply(&rest));
    }
}
