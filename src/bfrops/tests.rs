use proptest::prelude::*;

use super::wire::{self, Info, Kval};
use super::*;
use crate::types::{self, BARE_NESTING_MAX, DataArray, DataType, Key, Namespace, ProcId, Rank, Text, Value};

fn codec(generation: Generation, described: bool) -> Codec {
    Codec { generation, described }
}

fn packed<E: Encoding>(codec: Codec, value: &E::Value) -> Vec<u8> {
    let mut writer = Writer::new(codec);
    writer.pack::<E>(value).unwrap();
    writer.into_bytes()
}

fn unpacked<E: Encoding>(codec: Codec, bytes: &[u8]) -> Result<E::Value, DecodeProblem> {
    let mut reader = Reader::new(bytes, codec, &DecodeLimits::default()).unwrap();
    reader.unpack::<E>("test").map_err(|error| error.problem().clone())
}

/// The bytes behind the count, which is 1.
fn flex<E: Encoding>(value: &E::Value) -> Vec<u8> {
    packed::<E>(Codec::V41, value).split_off(1)
}

#[test]
fn numbers_have_the_bytes_that_were_captured() {
    assert_eq!(flex::<wire::Uint>(&300), [0xd8, 0x04]);
    assert_eq!(flex::<wire::Int>(&-7), [0x0d]);
    assert_eq!(flex::<wire::Int64>(&-1_234_567_890_123), [0x95, 0x93, 0xd8, 0x9f, 0xee, 0x47]);
    assert_eq!(flex::<wire::Pid>(&4242), [0x0e, 0x92, 0x21]);
    assert_eq!(flex::<wire::Size>(&1_000_000), [0xc0, 0x84, 0x3d]);
    assert_eq!(flex::<wire::Uint64>(&u64::MAX), [0xff; 9]);
    assert_eq!(flex::<crate::types::Rank>(&crate::types::Rank::Wildcard), [0xfe, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(flex::<wire::Status>(&wire::Status::ERR_NOT_FOUND), [0x5b]);
    assert_eq!(flex::<wire::Double>(&-2.25), b"\x14-2.250000\0");
}

#[test]
fn described_operations_name_their_types() {
    let status = wire::Status::SUCCESS;
    assert_eq!(packed::<wire::Status>(codec(Generation::V41, false), &status), [2, 0]);
    assert_eq!(packed::<wire::Status>(codec(Generation::V41, true), &status), [9, 2, 0x14, 0]);
    assert_eq!(packed::<wire::Status>(codec(Generation::V3, false), &status), [0, 0, 0, 1, 0, 0, 0, 0]);
    let as_string = packed::<wire::String>(codec(Generation::V41, true), &None);
    assert_eq!(
        unpacked::<wire::Status>(codec(Generation::V41, true), &as_string),
        Err(DecodeProblem::WrongType { expected: DataType::Status, found: 3 })
    );
}

#[test]
fn the_ninth_byte_of_a_number_is_taken_as_it_is() {
    let number = 1u64 << 63;
    assert_eq!(flex::<wire::Uint64>(&number), [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80]);
    assert_eq!(unpacked::<wire::Uint64>(Codec::V41, &packed::<wire::Uint64>(Codec::V41, &number)), Ok(number));
    let too_large = packed::<wire::Uint64>(Codec::V41, &(1 << 32));
    assert_eq!(
        unpacked::<wire::Uint32>(Codec::V41, &too_large),
        Err(DecodeProblem::NumberTooLarge { number: 1 << 32, target: DataType::Uint32 })
    );
}

#[test]
fn an_old_reader_accepts_another_width_than_its_own() {
    let v3 = codec(Generation::V3, false);
    // One size_t, sent by a peer whose size_t has four bytes.
    assert_eq!(unpacked::<wire::Size>(v3, &[0, 0, 0, 1, 0, 14, 0, 0, 1, 0]), Ok(256));
    assert_eq!(
        unpacked::<wire::Size>(v3, &[0, 0, 0, 1, 0, 3, 0, 0, 1, 0]),
        Err(DecodeProblem::WrongType { expected: DataType::Uint64, found: 3 })
    );
}

#[test]
fn an_array_of_tagged_numbers_has_one_tag() {
    let array = DataArray { element_type: DataType::Int, elements: vec![Value::Int(1), Value::Int(-1)] };
    let mut expected = vec![0, 0, 0, 1, 0, 6, 0, 15, 0, 0, 0, 0, 0, 0, 0, 2];
    expected.extend([0, 9, 0, 0, 0, 1, 255, 255, 255, 255]);
    assert_eq!(packed::<DataArray>(codec(Generation::V3, false), &array), expected);
}

#[test]
fn null_and_empty_strings_differ() {
    assert_eq!(flex::<wire::String>(&None), [0]);
    assert_eq!(flex::<wire::String>(&Some(Text::from(""))), [2, 0]);
    assert_eq!(unpacked::<wire::CompulsoryString>(Codec::V41, &[2, 0]), Err(DecodeProblem::NullString));
    assert_eq!(unpacked::<wire::String>(Codec::V41, &[2, 4, b'a', b'b']), Err(DecodeProblem::Unterminated));
    assert!(matches!(unpacked::<wire::String>(Codec::V41, &[2, 4, 0, 0]), Err(DecodeProblem::Text(_))));
    assert_eq!(unpacked::<wire::String>(Codec::V41, &[2, 1]), Err(DecodeProblem::ImpossibleCount { count: -1 }));
}

/// Hosts pass processes in the state of `PMIX_PROC_CONSTRUCT`. As a participant such a process is a mistake.
#[test]
fn a_process_that_nobody_filled_in_is_one_in_a_value_alone() {
    let nobody = ProcId { namespace: Namespace::in_value(b"").unwrap(), rank: Rank::Undefined };
    let value = Value::info_array(vec![types::Info::new(Key::from_static("k"), nobody.clone())]);
    let bytes = packed::<wire::Value>(Codec::V41, &value);
    assert_eq!(unpacked::<wire::Value>(Codec::V41, &bytes), Ok(value));
    let bytes = packed::<wire::Proc>(Codec::V41, &nobody);
    assert!(matches!(unpacked::<wire::Proc>(Codec::V41, &bytes), Err(DecodeProblem::Namespace(_))));
}

/// Programs have infos without a key in arrays that are larger than needed. Regression: client and server refused such
/// an array, which OpenPMIx passes on. The rule: an info may lack its key, a posted value may not.
#[test]
fn an_info_may_have_an_empty_key_and_an_entry_may_not() {
    let info = types::Info::new(Key::of_info(b"").unwrap(), 7_u32);
    let bytes = packed::<wire::Info>(Codec::V41, &info);
    assert_eq!(unpacked::<wire::Info>(Codec::V41, &bytes), Ok(info.clone()));
    let entry = types::Kval { key: info.key, value: info.value };
    let bytes = packed::<wire::Kval>(Codec::V41, &entry);
    assert_eq!(unpacked::<wire::Kval>(Codec::V41, &bytes), Err(DecodeProblem::Key(types::KeyError::Empty)));
}

#[test]
fn infinities_and_nan_are_sent_as_c_prints_them() {
    assert_eq!(flex::<wire::Double>(&f64::NAN), b"\x08nan\0");
    assert_eq!(flex::<wire::Float>(&f32::NEG_INFINITY), b"\x0a-inf\0");
    assert!(unpacked::<wire::Float>(Codec::V41, b"\x02\x0a-nan\0").unwrap().is_nan());
    assert_eq!(unpacked::<wire::Float>(Codec::V41, b"\x02\x06no\0"), Err(DecodeProblem::Float));
}

#[test]
fn types_that_an_encoding_lacks_are_neither_written_nor_read() {
    let device = Value::StorageMedium(1);
    for (generation, knows) in [(Generation::V3, false), (Generation::V4, false), (Generation::V41, true)] {
        let mut writer = Writer::new(codec(generation, false));
        assert_eq!(writer.pack::<Value>(&device).is_ok(), knows, "{generation}");
    }
    assert_eq!(
        unpacked::<Value>(codec(Generation::V4, false), &[2, 66, 1]),
        Err(DecodeProblem::UnregisteredType { data_type: DataType::StorageMedium, generation: Generation::V4 })
    );
    assert_eq!(unpacked::<Value>(Codec::V41, &[2, 29]), Err(DecodeProblem::UnknownType { code: 29 }));
    assert!(!codec(Generation::V61, false).registers(DataType::ProcStats));
}

#[test]
fn an_array_that_mixes_types_is_refused() {
    let array = DataArray { element_type: DataType::Int, elements: vec![Value::Int(1), Value::Bool(true)] };
    let expected = EncodeError::MixedArray { expected: DataType::Int, found: DataType::Bool, index: 1 };
    assert_eq!(Writer::new(Codec::V41).pack::<DataArray>(&array), Err(expected));
}

/// Regression: a client of OpenPMIx's main branch put an empty value, and the server refused its whole commit. This
/// client sends no count although it speaks V41. The generation does not determine the form, so both are read in each.
#[test]
fn an_array_without_a_type_is_sent_as_bytes_and_read_as_each_release_sends_it() {
    let untyped = DataArray { element_type: DataType::Undefined, elements: Vec::new() };
    assert_eq!(flex::<DataArray>(&untyped), [2, 0]);
    for generation in [Generation::V4, Generation::V41, Generation::V51, Generation::V61] {
        for array in [[0].as_slice(), &[0, 0]] {
            let message = [&[2], array, &[2, 14]].concat();
            let mut reader = Reader::new(&message, codec(generation, false), &DecodeLimits::default()).unwrap();
            assert_eq!(reader.unpack::<DataArray>("test").unwrap(), untyped);
            assert_eq!(reader.unpack::<wire::Int>("next").unwrap(), 7, "{generation}");
        }
    }
    let fixed = codec(Generation::V3, false);
    let bytes = DataArray { element_type: DataType::Byte, elements: vec![Value::Byte(1), Value::Byte(2)] };
    let mut counted = packed::<DataArray>(fixed, &bytes);
    assert_eq!(counted.get(4..6), Some([0, 2].as_slice()), "the elements' type");
    counted[5] = 0;
    assert_eq!(unpacked::<DataArray>(fixed, &counted), Err(DecodeProblem::UntypedElements { count: 2 }));
}

#[test]
fn a_map_expression_gets_the_terminator_it_lacks() {
    let regex = |bytes: &[u8]| Value::Regex(bytes.to_vec());
    assert_eq!(flex::<Value>(&regex(b"pmix[n0]")), b"\x31pmix[n0]\0");
    assert_eq!(unpacked::<Value>(Codec::V41, b"\x02\x31pmix[n0]"), Err(DecodeProblem::Regex));
    let cut = b"blob:\0component=zlib:\0size=5:\0abc";
    assert_eq!(Writer::new(Codec::V41).pack::<Value>(&regex(cut)), Err(EncodeError::Regex));
}

#[test]
fn ten_thousand_levels_are_an_error_in_both_directions() {
    let mut bytes = vec![21; 10_000];
    bytes.push(0);
    bytes.insert(0, 2);
    assert_eq!(unpacked::<Value>(Codec::V41, &bytes), Err(DecodeProblem::TooDeep { limit: 32 }));
    let deep = (0..100).fold(Value::Undefined, |inner, _| Value::Value(Box::new(inner)));
    assert_eq!(Writer::new(Codec::V41).pack::<Value>(&deep), Err(EncodeError::TooDeep { limit: 32 }));
}

#[test]
fn the_deepest_value_that_is_written_is_read() {
    let bare = (1..BARE_NESTING_MAX).fold(Value::Undefined, |inner, _| Value::Value(Box::new(inner)));
    let nested = |levels: u32| {
        let array = |inner| Value::info_array(vec![types::Info::new(Key::from_static("k"), inner)]);
        (0..levels).fold(Value::info_array(Vec::new()), |inner, _| array(inner))
    };
    for deepest in [bare, nested(DecodeLimits::NESTING_MAX / 2 - 1)] {
        assert!(unpacked::<Value>(Codec::V41, &packed::<Value>(Codec::V41, &deepest)) == Ok(deepest));
    }
    let deeper = Writer::new(Codec::V41).pack::<Value>(&nested(DecodeLimits::NESTING_MAX / 2 + 1));
    assert_eq!(deeper, Err(EncodeError::TooDeep { limit: 2049 }));
}

#[test]
fn counts_larger_than_the_message_are_errors() {
    let huge = packed::<wire::Size>(Codec::V41, &u64::MAX).split_off(1);
    for head in [vec![2, 39, 1], vec![2, 27], vec![2, 41, 0]] {
        let bytes = [head, huge.clone(), vec![0; 10]].concat();
        let problem = unpacked::<Value>(Codec::V41, &bytes).unwrap_err();
        assert_eq!(problem, DecodeProblem::EndOfMessage { needed: usize::MAX, left: 10 });
    }
    let mut reader = Reader::new(&[0; 10], Codec::V41, &DecodeLimits::default()).unwrap();
    let error = reader.unpack_all::<Info>("directives", 11).unwrap_err();
    assert_eq!((error.field(), error.position()), ("directives", 0));
}

#[test]
fn every_named_limit_holds_at_its_bound() {
    let string = packed::<wire::String>(Codec::V41, &Some(Text::from("abcd")));
    let array = [vec![2, 1, 4], vec![1; 4]].concat();
    let nested = [2, 21, 21, 1, 1];
    let read = |bytes: &[u8], limits: &DecodeLimits| {
        let mut reader = Reader::new(bytes, Codec::V41, limits)?;
        match bytes.len() {
            5 => reader.unpack::<Value>("value").map(drop),
            7 if bytes[1] == 1 => reader.unpack::<DataArray>("array").map(drop),
            _ => reader.unpack::<wire::String>("string").map(drop),
        }
    };
    let default = DecodeLimits::default();
    for (bytes, at_bound, below) in [
        (
            string.as_slice(),
            DecodeLimits { string_bytes_max: 4, ..default },
            DecodeLimits { string_bytes_max: 3, ..default },
        ),
        (&array, DecodeLimits { element_count_max: 4, ..default }, DecodeLimits { element_count_max: 3, ..default }),
        (&nested, DecodeLimits { nesting_max: 3, ..default }, DecodeLimits { nesting_max: 2, ..default }),
        (&nested, DecodeLimits { message_bytes_max: 5, ..default }, DecodeLimits { message_bytes_max: 4, ..default }),
    ] {
        assert_eq!(read(bytes, &at_bound), Ok(()));
        assert!(matches!(
            read(bytes, &below).unwrap_err().problem(),
            DecodeProblem::StringTooLong { .. }
                | DecodeProblem::TooManyElements { .. }
                | DecodeProblem::TooDeep { .. }
                | DecodeProblem::MessageTooLong { .. }
        ));
    }
}

#[test]
fn elements_inside_objects_count_against_the_same_limit() {
    let object = packed::<DataArray>(
        Codec::V41,
        &DataArray { element_type: DataType::Bool, elements: vec![Value::Bool(true); 3] },
    );
    let limits = DecodeLimits { element_count_max: 5, ..DecodeLimits::default() };
    let mut reader = Reader::new(&[], Codec::V41, &limits).unwrap();
    let mut read = || reader.inside(&object, Codec::V41, |reader| reader.unpack::<DataArray>("array"));
    assert!(read().is_ok());
    assert!(matches!(read().unwrap_err().problem(), DecodeProblem::TooManyElements { count: 3, limit: 5 }));
}

#[test]
fn an_error_says_where_it_is() {
    let entry = Kval { key: Key::from_static("k"), value: Value::from("text") };
    let mut bytes = packed::<Kval>(Codec::V41, &entry);
    bytes.pop();
    let mut reader = Reader::new(&bytes, Codec::V41, &DecodeLimits::default()).unwrap();
    let error = reader.unpack::<Kval>("entry").unwrap_err();
    assert_eq!((error.field(), error.position()), ("Kval.value", 6));
    assert_eq!(error.status(), wire::Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
}

fn codec_and_value() -> impl Strategy<Value = (Codec, Value)> {
    strategies::codec().prop_flat_map(|codec| (Just(codec), strategies::value(codec)))
}

proptest! {
    #![proptest_config(crate::cases::cases(512))]

    #[test]
    fn every_value_reads_back_in_every_encoding((codec, value) in codec_and_value()) {
        let bytes = packed::<Value>(codec, &value);
        let mut reader = Reader::new(&bytes, codec, &DecodeLimits::default()).unwrap();
        prop_assert_eq!(reader.unpack::<Value>("value").unwrap(), value);
        prop_assert!(reader.is_at_end());
    }

    #[test]
    fn a_cut_value_is_an_error_or_another_value((codec, value) in codec_and_value(), cut in any::<prop::sample::Index>()) {
        let bytes = packed::<Value>(codec, &value);
        let cut = bytes.get(..cut.index(bytes.len())).unwrap();
        // A topology may end anywhere among its flags; every other type has a length.
        if let Ok(other) = unpacked::<Value>(codec, cut) {
            let shown = format!("{other:?}");
            prop_assert!(shown.contains("Topology"), "{}", shown);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(codec in strategies::codec(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut reader = Reader::new(&bytes, codec, &DecodeLimits::default()).unwrap();
        let _ = reader.unpack_rest::<Kval>("entry");
        for data_type in DataType::ALL {
            let [high, low] = data_type.to_raw().to_be_bytes();
            let head: &[u8] = match (codec.generation, codec.described) {
                (Generation::V3, false) => &[0, 0, 0, 1, high, low],
                (Generation::V3, true) => &[0, 9, 0, 0, 0, 1, 0, 21, high, low],
                (_, false) => &[2, low],
                (_, true) => &[9, 2, 21, low],
            };
            let _ = unpacked::<Value>(codec, &[head, &bytes].concat());
        }
    }
}
