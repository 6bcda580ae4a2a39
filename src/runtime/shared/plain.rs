//! Values in a form for clients of other libraries. Such clients take another client's compressed bytes for a string,
//! or crash over them. They also copy a map with a size that they never set.

use std::borrow::Cow;

use crate::bfrops::{InflateError, inflate};
use crate::proto::Reply;
use crate::types::{Key, Text, Value};

/// The reply with maps as text, and with unpacked strings. A string that can't be unpacked, or not within the limit of
/// all strings together, is left out: the client could not use it.
pub(in crate::runtime) fn plain(reply: &Reply, unpacked_bytes_max: usize) -> Cow<'_, Reply> {
    let is_plain = |value: &Value| !matches!(value, Value::Regex(_) | Value::CompressedString(_));
    let mut left = unpacked_bytes_max;
    match reply {
        Reply::Data(data) if data.iter().flat_map(|of| &of.entries).any(|entry| !is_plain(&entry.value)) => {
            let mut data = data.clone();
            for of in &mut data {
                of.entries.retain_mut(|entry| make_plain(&entry.key, &mut entry.value, &mut left));
            }
            Cow::Owned(Reply::Data(data))
        }
        Reply::Infos(infos) if infos.iter().any(|info| !is_plain(&info.value)) => {
            let mut infos = infos.clone();
            infos.retain_mut(|info| make_plain(&info.key, &mut info.value, &mut left));
            Cow::Owned(Reply::Infos(infos))
        }
        Reply::Partial { status, results } => match plain(results, unpacked_bytes_max) {
            Cow::Owned(results) => Cow::Owned(Reply::Partial { status: *status, results: Box::new(results) }),
            Cow::Borrowed(_) => Cow::Borrowed(reply),
        },
        _ => Cow::Borrowed(reply),
    }
}

/// Whether the entry stays.
fn make_plain(key: &Key, value: &mut Value, left: &mut usize) -> bool {
    let text = match &*value {
        Value::Regex(bytes) => Text::until_nul(bytes),
        Value::CompressedString(bytes) => match unpacked(bytes, *left) {
            Ok(text) => {
                *left = left.saturating_sub(text.as_bytes().len());
                text
            }
            Err(error) => {
                tracing::warn!(%key, %error, "a client's compressed value can't be unpacked; clients of other \
                 libraries do not get it");
                return false;
            }
        },
        _ => return true,
    };
    *value = Value::String(text);
    true
}

/// The string of these compressed bytes, if it has at most `bytes_max` bytes.
pub(in crate::runtime) fn unpacked(compressed: &[u8], bytes_max: usize) -> Result<Text, InflateError> {
    inflate(compressed, bytes_max).map(|content| Text::until_nul(&content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::deflated;
    use crate::proto::RankData;
    use crate::types::{Info, Kval, Namespace, ProcId, Rank, Status};

    fn reply(entries: &[(&'static str, Value)]) -> Reply {
        let proc = ProcId::new(Namespace::new("job").unwrap(), Rank::from(0));
        let entry = |(key, value): &(&'static str, Value)| Kval { key: Key::from_static(key), value: value.clone() };
        Reply::Data(vec![RankData { proc, entries: entries.iter().map(entry).collect() }])
    }

    /// A client of 4.2 crashed over a long string of a client of 5.0. Clients of 5.0 and 6.1 got the string's
    /// compressed bytes.
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
    fn compressed_values_that_do_not_inflate_are_left_out() {
        let bomb = Value::CompressedString(deflated(&vec![0; 1 << 20], u32::MAX));
        let liar = Value::CompressedString(deflated(&[0; 100], 10));
        let rest = [("n", Value::from(1_u32))];
        let mixed = reply(&[("bomb", bomb), ("liar", liar), rest[0].clone()]);
        assert_eq!(*plain(&mixed, 1 << 20), reply(&rest));
    }

    /// Answers to queries had values in their stored form.
    #[test]
    fn answers_to_queries_are_plain_as_well() {
        let info = |value: Value| Info::new(Key::from_static("key"), value);
        let text = b"words".repeat(100);
        let compressed = Value::CompressedString(deflated(&text, 500));
        let (stored, told) = (
            [compressed, Value::Regex(b"raw:a\0".to_vec())],
            [Value::String(Text::until_nul(&text)), Value::from("raw:a")],
        );
        let (stored, told) = (stored.map(info).to_vec(), told.map(info).to_vec());
        assert_eq!(*plain(&Reply::Infos(stored.clone()), 1 << 20), Reply::Infos(told.clone()));
        let partial =
            |infos| Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results: Box::new(Reply::Infos(infos)) };
        assert_eq!(*plain(&partial(stored), 1 << 20), partial(told.clone()));
        assert!(matches!(plain(&partial(told), 0), Cow::Borrowed(_)));
    }
}
