//! A nested value of a segment whose content is damaged is refused, and nothing of it stays in memory.

#[expect(dead_code, reason = "the peak is of no interest here")]
#[path = "support/counting.rs"]
mod counting;

use modex::types::{ArchivedValue, Info, Key, Namespace, ProcId, Value};
use rkyv::rancor::Error;

/// Copies of one damaged value. A lost byte of each is far more than the test's own main thread allocates meanwhile.
const COPIES: usize = 10_000;

/// A client lost memory each time it read a damaged nested value, up to the size of the value. The cause was rkyv,
/// which frees nothing of a copy if it refuses a part of it. So the copy goes on with a substitute for the part, and is
/// refused at its end.
#[test]
fn a_refused_copy_leaves_no_memory() {
    let text = Info::new(Key::from_static("text"), "a string that is not inline");
    let process = ProcId::new(Namespace::new("the job's name").unwrap(), 0x00AB_CDEF);
    let process = Info::new(Key::from_static("process"), Value::Proc(Box::new(process)));
    let value = Value::info_array(vec![text, process]);
    let good = rkyv::to_bytes::<Error>(&value).unwrap();
    let reserved = 0xFFFF_FFFE_u32.to_le_bytes();
    let damages: [(&[u8], &[u8]); 4] = [
        (b"not inline", b"not\0inline"),
        (b"the job's name", b"the\0job's name"),
        (b"process", b"pro\0ess"),
        (&0x00AB_CDEF_u32.to_le_bytes(), &reserved),
    ];
    for (from, to) in damages {
        let mut bytes = good.clone();
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes.get_mut(at..at + to.len()).unwrap().copy_from_slice(to);
        let archived = rkyv::access::<ArchivedValue, Error>(&bytes).unwrap();
        let before = counting::used_bytes();
        for _ in 0..COPIES {
            assert_eq!(archived.to_value(), None);
        }
        let lost = counting::used_bytes().saturating_sub(before);
        assert_eq!(lost / COPIES, 0, "{}: {lost} bytes", from.escape_ascii());
    }
    assert_eq!(rkyv::access::<ArchivedValue, Error>(&good).unwrap().to_value(), Some(value));
}
