//! Round trips of packed values.

use modex::types::{DataArray, DataType, Status, Text, Value};
use proptest::prelude::*;

use super::buffers::*;
use super::copy::*;
use super::pack::*;
use crate::argument::Counted;
use crate::argument::as_c::as_c;
use crate::form::tests::{is_expected, owned, values};
use crate::form::{Depth, Form, bare_regex, data_array};
use crate::to_c::Single;
use crate::types::{c_char, c_void, pmix_byte_object_t, pmix_data_array_t, pmix_data_buffer_t, pmix_value_t};
use crate::{from_c, memory, to_c};

const SUCCESS: i32 = 0;

fn pack(buffer: &mut Single<pmix_data_buffer_t>, src: *const c_void, count: i32, data_type: DataType) -> i32 {
    as_c!(PMIx_Data_pack(std::ptr::null(), buffer.as_mut_ptr(), src.cast_mut(), count, data_type.to_raw()))
}

fn unpack(buffer: &mut Single<pmix_data_buffer_t>, dest: *mut c_void, count: &mut i32, data_type: DataType) -> i32 {
    as_c!(PMIx_Data_unpack(std::ptr::null(), buffer.as_mut_ptr(), dest, &raw mut *count, data_type.to_raw()))
}

fn address<T>(of: &T) -> *const c_void {
    (&raw const *of).cast()
}

fn place<T>(of: &mut T) -> *mut c_void {
    (&raw mut *of).cast()
}

proptest! {
    #[test]
    fn unpacking_returns_the_packed_values(value in values(), count in 1usize..4) {
        let value = owned(value);
        let element_type = value.data_type();
        // Undefined values are no elements; map expressions are passed in another form, see below.
        prop_assume!(!matches!(element_type, DataType::Undefined | DataType::Regex));
        let given = DataArray { element_type, elements: vec![value; count] };
        match Single::<pmix_data_array_t>::new(&given) {
            Err(error) => prop_assert!(is_expected(&error), "{error}"),
            Ok(foreign) => {
                let mut buffer = Single::<pmix_data_buffer_t>::constructed();
                let number = i32::try_from(count).unwrap();
                let first = foreign.get().array;
                prop_assert_eq!(pack(&mut buffer, first, number, element_type), SUCCESS);
                prop_assert_eq!(pack(&mut buffer, address(&7i32), 1, DataType::Int32), SUCCESS);
                let mut back = Single::<pmix_data_array_t>::constructed();
                // SAFETY: the array gets a block of its own (F1).
                drop(data_array::allocate(element_type, count, unsafe { back.get_mut() }).unwrap());
                let first = back.get().array;
                let mut room = number;
                prop_assert_eq!(unpack(&mut buffer, first, &mut room, element_type), SUCCESS);
                prop_assert_eq!(room, number);
                let back = pmix_data_array_t::read(back.whole(), Depth::TOP).unwrap();
                prop_assert_eq!(back, given);
                let (mut seven, mut one) = (0i32, 1);
                prop_assert_eq!(unpack(&mut buffer, place(&mut seven), &mut one, DataType::Int32), SUCCESS);
                prop_assert_eq!(seven, 7);
            }
        }
    }

    #[test]
    fn foreign_bytes_are_refused_or_read_but_never_followed(bytes: Vec<u8>, code in 0u16..80) {
        let mut buffer = Single::<pmix_data_buffer_t>::new(&bytes).unwrap();
        let Some(element_type) = DataType::from_raw(code) else { return Ok(()) };
        let mut array = Single::<pmix_data_array_t>::constructed();
        // SAFETY: the array gets a block of its own (F1).
        if data_array::allocate(element_type, 2, unsafe { array.get_mut() }).is_err() {
            return Ok(());
        }
        let first = array.get().array;
        if element_type != DataType::Regex {
            let mut room = 2;
            let status = unpack(&mut buffer, first, &mut room, element_type);
            prop_assert!(status == SUCCESS || status < 0);
            prop_assert!((0..=2).contains(&room));
        }
    }
}

#[test]
fn map_expressions_are_packed_from_bare_pointers() {
    let blob = b"blob:\0component=zlib:\0size=3:\0a\0b";
    let given: [*const c_char; 2] = [c"pmix[a:1]".as_ptr(), blob.as_ptr().cast()];
    let mut buffer = Single::<pmix_data_buffer_t>::constructed();
    assert_eq!(pack(&mut buffer, given.as_ptr().cast(), 2, DataType::Regex), SUCCESS);
    let (mut back, mut room) = ([std::ptr::null_mut::<c_char>(); 2], 2);
    assert_eq!(unpack(&mut buffer, place(&mut back), &mut room, DataType::Regex), SUCCESS);
    for (expression, expected) in back.into_iter().zip([&b"pmix[a:1]\0"[..], blob]) {
        // SAFETY: unpacked just now.
        assert_eq!(unsafe { bare_regex(expression) }.unwrap(), expected);
        // SAFETY: made by the unpacking, and used by nobody.
        unsafe { memory::release(expression) };
    }
}

#[test]
fn too_little_room_gives_what_fits_and_the_caller_may_go_back() {
    let mut buffer = Single::<pmix_data_buffer_t>::constructed();
    assert_eq!(pack(&mut buffer, address(&[1u32, 2, 3]), 3, DataType::Uint32), SUCCESS);
    let (mut few, mut room) = ([0u32; 2], 2);
    let status = unpack(&mut buffer, place(&mut few), &mut room, DataType::Uint32);
    assert_eq!((status, room, few), (Status::ERR_UNPACK_INADEQUATE_SPACE.to_raw(), 2, [1, 2]));
    // Behind the count and two values of one byte.
    assert_eq!(read_bytes(&buffer), 3);
    // SAFETY: the position is in the buffer's block.
    unsafe { buffer.get_mut() }.unpack_ptr = buffer.get().base_ptr;
    let (mut all, mut room) = ([0u32; 5], 5);
    assert_eq!(unpack(&mut buffer, place(&mut all), &mut room, DataType::Uint32), SUCCESS);
    assert_eq!((room, all), (3, [1, 2, 3, 0, 0]));
    let status = unpack(&mut buffer, place(&mut all), &mut room, DataType::Uint32);
    assert_eq!((status, room), (Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER.to_raw(), 0));
}

/// The bytes of a buffer that are read.
fn read_bytes(buffer: &Single<pmix_data_buffer_t>) -> usize {
    buffer.get().unpack_ptr.addr() - buffer.get().base_ptr.addr()
}

/// The statuses and positions are those of OpenPMIx 4.2.2, 5.0, 6.1 and its main line.
#[test]
fn an_operation_of_no_values_is_read_as_in_openpmix() {
    let (past_end, mut place_of_values) = (Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER.to_raw(), [0u64; 64]);
    for (data_type, expected) in [
        (DataType::Int32, (past_end, 1)),
        // Their width is sent.
        (DataType::Pid, (past_end, 2)),
        (DataType::StorageMedium, (past_end, 1)),
        (DataType::StorageAccess, (past_end, 1)),
        (DataType::StoragePersistence, (past_end, 1)),
        (DataType::StorageAccessType, (past_end, 1)),
        (DataType::Uint8, (SUCCESS, 1)),
        (DataType::Info, (SUCCESS, 1)),
    ] {
        let mut buffer = Single::<pmix_data_buffer_t>::constructed();
        assert_eq!(pack(&mut buffer, std::ptr::null(), 0, data_type), SUCCESS);
        let mut room = 3;
        let status = unpack(&mut buffer, place(&mut place_of_values), &mut room, data_type);
        assert_eq!((status, read_bytes(&buffer)), expected, "{data_type:?}");
        assert_eq!((room, buffer.get().bytes_used), (0, expected.1), "{data_type:?}");
    }
}

/// The positions are those of OpenPMIx 4.2.2, 5.0, 6.1 and its main line.
#[test]
fn after_a_failure_the_position_is_behind_what_was_read() {
    let mut place_of_values = [0u64; 64];
    let unknown = Status::ERR_UNKNOWN_DATA_TYPE.to_raw();
    // A type that nobody has: the count is read.
    let mut buffer = Single::<pmix_data_buffer_t>::constructed();
    assert_eq!(pack(&mut buffer, address(&5u32), 1, DataType::Uint32), SUCCESS);
    let mut room = 1;
    let out = place(&mut place_of_values);
    let status = as_c!(PMIx_Data_unpack(std::ptr::null(), buffer.as_mut_ptr(), out, &raw mut room, 9999));
    assert_eq!((status, room, read_bytes(&buffer)), (unknown, 0, 1));
    // A text that is no topology: all is read.
    let mut buffer = Single::<pmix_data_buffer_t>::constructed();
    assert_eq!(pack(&mut buffer, address(&c"no topology".as_ptr()), 1, DataType::String), SUCCESS);
    room = 1;
    let status = unpack(&mut buffer, place(&mut place_of_values), &mut room, DataType::Topology);
    assert!(status < 0);
    assert_eq!((room, read_bytes(&buffer)), (0, buffer.get().bytes_used));
}

#[test]
fn invalid_packs_are_refused_and_leave_the_buffer_unchanged() {
    let mut buffer = Single::<pmix_data_buffer_t>::constructed();
    let bad = Status::ERR_BAD_PARAM.to_raw();
    assert_eq!(pack(&mut buffer, address(&1u32), -1, DataType::Uint32), bad);
    assert_eq!(pack(&mut buffer, std::ptr::null(), 1, DataType::Uint32), bad);
    assert_eq!(pack(&mut buffer, address(&1u32), i32::MAX, DataType::Buffer), Status::ERR_UNKNOWN_DATA_TYPE.to_raw());
    let status = as_c!(PMIx_Data_pack(std::ptr::null(), buffer.as_mut_ptr(), std::ptr::null_mut(), 1, 999));
    assert_eq!(status, Status::ERR_UNKNOWN_DATA_TYPE.to_raw());
    let status = as_c!(PMIx_Data_pack(std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut(), 1, 3));
    assert_eq!(status, bad);
    assert_eq!(buffer.get().bytes_used, 0);
    let mut wrong = pmix_data_buffer_t {
        base_ptr: std::ptr::null_mut(),
        pack_ptr: std::ptr::null_mut(),
        unpack_ptr: std::ptr::null_mut(),
        bytes_allocated: 0,
        bytes_used: 9,
    };
    let (mut out, mut room) = (0u8, 1);
    let status = as_c!(PMIx_Data_unpack(std::ptr::null(), &raw mut wrong, place(&mut out), &raw mut room, 12));
    assert_eq!(status, bad);
}

#[test]
fn only_what_is_unread_is_unloaded_and_joined() {
    let mut buffer = Single::<pmix_data_buffer_t>::constructed();
    assert_eq!(pack(&mut buffer, address(&1u8), 1, DataType::Uint8), SUCCESS);
    assert_eq!(pack(&mut buffer, address(&2u8), 1, DataType::Uint8), SUCCESS);
    let (mut byte, mut room) = (0u8, 1);
    assert_eq!(unpack(&mut buffer, place(&mut byte), &mut room, DataType::Uint8), SUCCESS);
    let mut joined = Single::<pmix_data_buffer_t>::constructed();
    assert_eq!(pack(&mut joined, address(&3u8), 1, DataType::Uint8), SUCCESS);
    assert_eq!(as_c!(PMIx_Data_copy_payload(joined.as_mut_ptr(), buffer.as_mut_ptr())), SUCCESS);
    let mut payload = Single::<pmix_byte_object_t>::constructed();
    assert_eq!(as_c!(PMIx_Data_unload(buffer.as_mut_ptr(), payload.as_mut_ptr())), SUCCESS);
    // A count of one is the byte 2 in this encoding.
    assert_eq!(as_c!(from_c::byte_object(payload.as_ptr())).unwrap(), [2, 2]);
    for expected in [3u8, 2] {
        assert_eq!(unpack(&mut joined, place(&mut byte), &mut room, DataType::Uint8), SUCCESS);
        assert_eq!(byte, expected);
    }
    assert_eq!(as_c!(PMIx_Data_embed(joined.as_mut_ptr(), payload.as_ptr())), SUCCESS);
    assert_eq!(as_c!(PMIx_Data_load(buffer.as_mut_ptr(), payload.as_mut_ptr())), SUCCESS);
    assert!(as_c!(from_c::byte_object(payload.as_ptr())).unwrap().is_empty());
    for mut buffer in [buffer, joined] {
        assert_eq!(unpack(&mut buffer, place(&mut byte), &mut room, DataType::Uint8), SUCCESS);
        assert_eq!(byte, 2);
    }
}

#[test]
fn compression_is_undone_and_not_done_in_vain() {
    let plain = vec![b'x'; 5000];
    let (mut bytes, mut size) = (std::ptr::null_mut::<u8>(), 0usize);
    assert!(as_c!(PMIx_Data_compress(plain.as_ptr(), plain.len(), &raw mut bytes, &raw mut size)));
    assert!(size < 100);
    let (mut back, mut back_size) = (std::ptr::null_mut::<u8>(), 0usize);
    assert!(as_c!(PMIx_Data_decompress(bytes, size, &raw mut back, &raw mut back_size)));
    // SAFETY: so many bytes were made just now.
    assert_eq!(from_c::bytes(unsafe { Counted::new(back.cast(), back_size) }).unwrap(), plain);
    assert!(!as_c!(PMIx_Data_decompress(plain.as_ptr(), 100, &raw mut back, &raw mut back_size)));
    assert!(!as_c!(PMIx_Data_compress(c"ab".as_ptr().cast(), 2, &raw mut back, &raw mut back_size)));
    // SAFETY: made by the compression.
    unsafe { memory::release(bytes) };
    // SAFETY: made by the decompression, untouched by what failed.
    unsafe { memory::release(back) };
}

#[test]
fn copies_are_deep_and_strings_are_given_themselves() {
    let mut copy = std::ptr::null_mut();
    assert_eq!(as_c!(PMIx_Data_copy(&raw mut copy, c"text".as_ptr().cast_mut().cast(), 3)), SUCCESS);
    assert_eq!(as_c!(from_c::text(copy.cast())).unwrap(), Some(Text::from("text")));
    // SAFETY: made just now by the library, and used by nobody.
    unsafe { memory::release(copy) };
    let value = to_c::new_value(&Value::from("inside")).unwrap();
    assert_eq!(as_c!(PMIx_Data_copy(&raw mut copy, value.cast(), DataType::Value.to_raw())), SUCCESS);
    for value in [value, copy.cast::<pmix_value_t>()] {
        assert_eq!(as_c!(from_c::value_at(value)).unwrap(), Value::from("inside"));
        as_c!(crate::helpers::requests::PMIx_Value_free(value, 1));
    }
}

#[test]
fn every_line_of_a_description_has_its_prefix() {
    let value = Value::DataArray(Box::new(DataArray {
        element_type: DataType::Uint32,
        elements: vec![Value::Uint32(1), Value::Uint32(2)],
    }));
    let foreign = to_c::new_value(&value).unwrap();
    let mut text = std::ptr::null_mut();
    let prefix = c"> ".as_ptr().cast_mut();
    let status = as_c!(PMIx_Data_print(&raw mut text, prefix, foreign.cast(), DataType::Value.to_raw()));
    assert_eq!(status, SUCCESS);
    let lines = as_c!(from_c::text(text)).unwrap().unwrap().to_string();
    assert_eq!(lines, "> PMIX_VALUE: PMIX_DATA_ARRAY: 2 of PMIX_UINT32\n>     PMIX_UINT32: 1\n>     PMIX_UINT32: 2");
    // SAFETY: made just now by the library, and used by nobody.
    unsafe { memory::release(text) };
    as_c!(crate::helpers::requests::PMIx_Value_free(foreign, 1));
}
