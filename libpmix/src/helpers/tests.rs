//! The functions as C calls them.

use std::ffi::CStr;

use modex::types::codes;
use modex::types::{DataType, InfoFlags, Rank, Status, Text, Value};

use super::argv::*;
use super::data_array::*;
use super::info::*;
use super::info_list::*;
use super::members::*;
use super::names::*;
use super::requests::*;
use super::strings::*;
use super::value::*;
use super::{code_names, devices, processes};
use crate::argument::Counted;
use crate::argument::as_c::as_c;
use crate::form::Whole;
use crate::to_c::Single;
use crate::types::*;
use crate::{from_c, memory, pointer};

const SUCCESS: i32 = 0;

fn empty_value() -> pmix_value_t {
    Single::<pmix_value_t>::constructed().into_raw()
}

fn load(data: *const c_void, data_type: DataType) -> (i32, pmix_value_t) {
    let mut value = empty_value();
    let status = as_c!(PMIx_Value_load(&raw mut value, data, data_type.to_raw()));
    (status, value)
}

fn loaded(data: *const c_void, data_type: DataType) -> pmix_value_t {
    let (status, value) = load(data, data_type);
    assert_eq!(status, SUCCESS, "{data_type:?}");
    value
}

fn address<T>(of: &T) -> *const c_void {
    (&raw const *of).cast()
}

fn read(value: &pmix_value_t) -> Value {
    // SAFETY: values made by the tests with the library's functions.
    from_c::value(unsafe { Whole::new(value) }).unwrap()
}

fn destruct(mut value: pmix_value_t) {
    as_c!(PMIx_Value_destruct(&raw mut value));
    assert_eq!(value.type_, 0);
}

fn taken(text: *mut c_char) -> String {
    let copy = as_c!(from_c::text(text)).unwrap().unwrap().to_string();
    // SAFETY: a string made by the library, and used by nobody any more.
    unsafe { memory::release(text) };
    copy
}

fn strings(array: *mut *mut c_char) -> Vec<String> {
    as_c!(from_c::argv(array)).unwrap().iter().map(Text::to_string).collect()
}

fn lasting(text: *const c_char) -> &'static str {
    // SAFETY: a name that lives as long as the process.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap()
}

#[test]
fn data_is_loaded_by_address_but_texts_and_pointers_themselves() {
    for (value, expected) in [
        (loaded(address(&7u32), DataType::Uint32), Value::Uint32(7)),
        (loaded(c"text".as_ptr().cast(), DataType::String), Value::from("text")),
        (loaded(std::ptr::null(), DataType::String), Value::NullString),
        (loaded(std::ptr::null(), DataType::Bool), Value::Bool(true)),
        (loaded(std::ptr::null(), DataType::Uint64), Value::Uint64(0)),
        (loaded(c"pmix[n:1]".as_ptr().cast(), DataType::Regex), Value::Regex(b"pmix[n:1]\0".to_vec())),
        (loaded(std::ptr::null(), DataType::Undefined), Value::Undefined),
    ] {
        assert_eq!(read(&value), expected);
        destruct(value);
    }
    let pointer = loaded(std::ptr::without_provenance(0x1234), DataType::Pointer);
    assert_eq!(pointer.data.ptr().addr(), 0x1234);
    let (status, value) = load(c"".as_ptr().cast(), DataType::Kval);
    assert_eq!((status, value.type_), (Status::ERR_UNKNOWN_DATA_TYPE.to_raw(), 0));
}

#[test]
fn a_pointer_survives_a_transfer() {
    let from = loaded(std::ptr::without_provenance(0x1234), DataType::Pointer);
    let mut to = empty_value();
    assert_eq!(as_c!(PMIx_Value_xfer(&raw mut to, &raw const from)), SUCCESS);
    assert_eq!(to.data.ptr().addr(), 0x1234);
}

#[test]
fn a_null_string_is_transferred_and_unloads_to_nothing() {
    let from = loaded(std::ptr::null(), DataType::String);
    let mut to = empty_value();
    assert_eq!(as_c!(PMIx_Value_xfer(&raw mut to, &raw const from)), SUCCESS);
    assert_eq!(read(&to), Value::NullString);
    let (mut data, mut size) = (std::ptr::without_provenance_mut(0x10), 77usize);
    assert_eq!(as_c!(PMIx_Value_unload(&raw mut to, &raw mut data, &raw mut size)), SUCCESS);
    assert_eq!((data.addr(), size), (0x10, 77));
}

#[test]
fn unloading_copies_strings_and_numbers_and_lends_bytes() {
    let mut string = loaded(c"text".as_ptr().cast(), DataType::String);
    let (mut data, mut size) = (std::ptr::null_mut(), 0usize);
    assert_eq!(as_c!(PMIx_Value_unload(&raw mut string, &raw mut data, &raw mut size)), SUCCESS);
    assert_eq!((taken(data.cast()).as_str(), size), ("text", 4));
    destruct(string);

    let mut number = loaded(address(&9u16), DataType::Uint16);
    let mut place = 0u16;
    data = (&raw mut place).cast();
    assert_eq!(as_c!(PMIx_Value_unload(&raw mut number, &raw mut data, &raw mut size)), SUCCESS);
    assert_eq!((place, size), (9, 2));
    data = std::ptr::null_mut();
    let status = as_c!(PMIx_Value_unload(&raw mut number, &raw mut data, &raw mut size));
    assert_eq!(status, Status::ERR_BAD_PARAM.to_raw());

    let object = pmix_byte_object_t { bytes: c"bytes".as_ptr().cast_mut(), size: 5 };
    let mut bytes = loaded((&raw const object).cast(), DataType::ByteObject);
    assert_eq!(as_c!(PMIx_Value_unload(&raw mut bytes, &raw mut data, &raw mut size)), SUCCESS);
    assert_eq!((data, size), (bytes.data.bo().bytes.cast(), 5));
    destruct(bytes);
}

#[test]
fn values_are_compared_by_type_and_size() {
    let compare = |mut one: pmix_value_t, mut other: pmix_value_t| {
        let outcome = as_c!(PMIx_Value_compare(&raw mut one, &raw mut other));
        destruct(one);
        destruct(other);
        outcome
    };
    let int = |number: i32| loaded((&raw const number).cast(), DataType::Int);
    let text = |text: &CStr| loaded(text.as_ptr().cast(), DataType::String);
    assert_eq!(compare(int(-1), int(-1)), codes::value_cmp::EQUAL);
    assert_eq!(compare(int(1), int(-1)), codes::value_cmp::VALUE1_GREATER);
    assert_eq!(compare(text(c"a"), text(c"b")), codes::value_cmp::VALUE2_GREATER);
    assert_eq!(compare(int(1), text(c"1")), codes::value_cmp::VALUE_TYPE_DIFFERENT);
    let proc = |rank: u32| {
        let mut proc = Single::<pmix_proc_t>::constructed().into_raw();
        as_c!(PMIx_Load_procid(&raw mut proc, c"ns".as_ptr(), rank));
        loaded((&raw const proc).cast(), DataType::Proc)
    };
    assert_eq!(compare(proc(1), proc(1)), codes::value_cmp::EQUAL);
    assert_eq!(compare(proc(1), proc(2)), codes::value_cmp::VALUE_INCOMPATIBLE_OBJECTS);
}

#[test]
fn truth_is_a_boolean_a_text_or_nothing() {
    let truth = |value: pmix_value_t| {
        let truth = as_c!(PMIx_Value_true(&raw const value));
        destruct(value);
        truth
    };
    let text = |text: &CStr| loaded(text.as_ptr().cast(), DataType::String);
    assert_eq!(truth(empty_value()), codes::boolean::BOOL_TRUE);
    assert_eq!(truth(loaded(address(&0u8), DataType::Bool)), codes::boolean::BOOL_FALSE);
    assert_eq!(truth(text(c"Yes")), codes::boolean::BOOL_TRUE);
    assert_eq!(truth(text(c"0")), codes::boolean::BOOL_FALSE);
    assert_eq!(truth(text(c"maybe")), codes::boolean::NON_BOOL);
    assert_eq!(truth(loaded(address(&1i32), DataType::Int)), codes::boolean::NON_BOOL);
}

#[test]
fn a_number_is_given_in_the_type_asked_for() {
    let value = loaded(address(&-2i32), DataType::Int);
    let mut wide = 0i64;
    let status = as_c!(PMIx_Value_get_number(&raw const value, (&raw mut wide).cast(), DataType::Int64.to_raw()));
    assert_eq!((status, wide), (SUCCESS, -2));
    let status = as_c!(PMIx_Value_get_number(&raw const value, (&raw mut wide).cast(), DataType::Size.to_raw()));
    assert_eq!((status, wide), (Status::ERR_CHANGE_SIGN.to_raw(), -2));
}

#[test]
fn infos_are_loaded_transferred_and_flagged() {
    let infos = PMIx_Info_create(2);
    assert!(PMIx_Info_create(0).is_null());
    let second = infos.wrapping_add(1);
    assert!(!as_c!(PMIx_Info_is_end(infos)) && as_c!(PMIx_Info_is_end(second)));
    assert_eq!(as_c!(PMIx_Info_load(infos, c"a.key".as_ptr(), c"text".as_ptr().cast(), 3)), SUCCESS);
    as_c!(PMIx_Info_required(infos));
    assert_eq!(as_c!(PMIx_Info_xfer(second, infos)), SUCCESS);
    assert!(as_c!(PMIx_Info_is_required(second)) && !as_c!(PMIx_Info_is_optional(second)));
    // SAFETY: the second of two infos made above.
    let read = from_c::infos(unsafe { Counted::new(second, 1) }).unwrap().remove(0);
    assert_eq!((read.key.as_str(), read.value), ("a.key", Value::from("text")));
    assert_eq!(taken(as_c!(PMIx_Info_string(second))), "a.key [REQUIRED] PMIX_STRING: text");
    let long = std::ffi::CString::new(vec![b'k'; 512]).unwrap();
    let bad = Status::ERR_BAD_PARAM.to_raw();
    let mut info = Single::<pmix_info_t>::constructed();
    assert_eq!(as_c!(PMIx_Info_load(info.as_mut_ptr(), long.as_ptr(), c"".as_ptr().cast(), 3)), bad);
    assert_eq!(as_c!(PMIx_Info_load(info.as_mut_ptr(), std::ptr::null(), c"".as_ptr().cast(), 3)), bad);
    as_c!(PMIx_Info_free(infos, 2));
}

/// Regression: PRRTE 3.0 destructs the second info of an array of one. It crashed or not, as the memory behind the
/// array was.
#[test]
fn an_empty_info_follows_an_array() {
    let infos = PMIx_Info_create(1);
    let behind = infos.wrapping_add(1);
    // SAFETY: the block has an empty info behind the last.
    let bytes = unsafe { std::slice::from_raw_parts(behind.cast::<u8>(), size_of::<pmix_info_t>()) };
    assert!(bytes.iter().all(|&byte| byte == 0), "{bytes:?}");
    as_c!(PMIx_Info_destruct(behind));
    as_c!(PMIx_Info_free(infos, 1));
}

#[test]
fn a_list_grows_keeps_keys_unique_and_becomes_an_array() {
    let list = PMIx_Info_list_start();
    let add = |key: &CStr, text: &CStr| as_c!(PMIx_Info_list_add(list, key.as_ptr(), text.as_ptr().cast(), 3));
    let mut array = Single::<pmix_data_array_t>::constructed();
    assert_eq!(as_c!(PMIx_Info_list_convert(list, array.as_mut_ptr())), Status::ERR_EMPTY.to_raw());
    assert_eq!((add(c"a", c"1"), add(c"b", c"2")), (SUCCESS, SUCCESS));
    for (overwrite, text) in [(false, c"kept out"), (true, c"3")] {
        let status = as_c!(PMIx_Info_list_add_unique(list, c"a".as_ptr(), text.as_ptr().cast(), 3, overwrite));
        assert_eq!(status, SUCCESS);
    }
    assert_eq!(as_c!(PMIx_Info_list_prepend(list, c"first".as_ptr(), std::ptr::null(), 1)), SUCCESS);
    let mut lent = Single::<pmix_info_t>::constructed();
    assert_eq!(as_c!(PMIx_Info_load(lent.as_mut_ptr(), c"lent".as_ptr(), c"x".as_ptr().cast(), 3)), SUCCESS);
    assert_eq!(as_c!(PMIx_Info_list_insert(list, lent.as_mut_ptr())), SUCCESS);
    assert_eq!(as_c!(PMIx_Info_list_get_size(list)), 4);
    assert_eq!(as_c!(PMIx_Info_list_convert(list, array.as_mut_ptr())), SUCCESS);
    let (mut keys, mut at) = (Vec::new(), std::ptr::null_mut());
    loop {
        let mut next = std::ptr::null_mut();
        let info = as_c!(PMIx_Info_list_get_info(list, at, &raw mut next));
        // SAFETY: the info is the list's.
        keys.push(from_c::key_in_place(unsafe { &(*info).key }).unwrap().to_owned());
        at = next;
        if at.is_null() {
            break;
        }
    }
    assert_eq!(keys, ["first", "a", "b", "lent"]);
    as_c!(PMIx_Info_list_release(list));
    // SAFETY: the array is independent of the list.
    let infos = from_c::infos(unsafe { Counted::new(array.get().array.cast(), 4) }).unwrap();
    assert_eq!(infos[1].value, Value::from("3"));
    assert!(infos[3].flags().contains(InfoFlags::PERSISTENT | InfoFlags::ARRAY_END));
    as_c!(PMIx_Data_array_destruct(array.as_mut_ptr()));
}

#[test]
fn arrays_of_strings_grow_at_both_ends() {
    let mut array = std::ptr::null_mut();
    for (append, text) in [(true, c"b"), (true, c"c"), (false, c"a")] {
        let insert = if append { PMIx_Argv_append_nosize } else { PMIx_Argv_prepend_nosize };
        let status = as_c!(insert(&raw mut array, text.as_ptr()));
        assert_eq!(status, SUCCESS);
    }
    assert_eq!(as_c!(PMIx_Argv_append_unique_nosize(&raw mut array, c"b".as_ptr())), SUCCESS);
    assert_eq!(strings(array), ["a", "b", "c"]);
    let copy = as_c!(PMIx_Argv_copy(array));
    as_c!(PMIx_Argv_free(array));
    assert_eq!((as_c!(PMIx_Argv_count(copy)), taken(as_c!(PMIx_Argv_join(copy, 58))).as_str()), (3, "a:b:c"));
    as_c!(PMIx_Argv_free(copy));
}

#[test]
fn texts_are_split_with_and_without_empty_pieces() {
    let split = |text: &CStr, with_empty| {
        let array = as_c!(PMIx_Argv_split_inter(text.as_ptr(), i32::from(b','), with_empty));
        let pieces = strings(array);
        as_c!(PMIx_Argv_free(array));
        pieces
    };
    assert_eq!(split(c",a,,b,", false), ["a", "b"]);
    assert_eq!(split(c",a,,b,", true), ["", "a", "", "b", ""]);
    assert!(split(c"", true).is_empty());
    assert!(as_c!(PMIx_Argv_split(std::ptr::null(), 44)).is_null());
}

#[test]
fn a_variable_is_set_once_unless_it_may_be_overwritten() {
    let mut env = std::ptr::null_mut();
    let mut set = |name: &CStr, value: *const c_char, overwrite| {
        as_c!(PMIx_Setenv(name.as_ptr(), value, overwrite, &raw mut env))
    };
    assert_eq!(set(c"A", c"1".as_ptr(), false), SUCCESS);
    assert_eq!(set(c"AB", std::ptr::null(), false), SUCCESS);
    assert_eq!(set(c"A", c"2".as_ptr(), false), Status::ERR_EXISTS.to_raw());
    assert_eq!(set(c"A", c"3".as_ptr(), true), SUCCESS);
    assert_eq!(set(c"A=B", c"3".as_ptr(), true), Status::ERR_BAD_PARAM.to_raw());
    assert_eq!(strings(env), ["A=3", "AB="]);
    as_c!(PMIx_Argv_free(env));
}

#[test]
fn names_in_place_are_cut_and_compared() {
    let mut key = [1; 512];
    let long = std::ffi::CString::new(vec![b'k'; 600]).unwrap();
    as_c!(PMIx_Load_key(key.as_mut_ptr(), long.as_ptr()));
    assert_eq!((key[510], key[511]), (b'k'.cast_signed(), 0));
    as_c!(PMIx_Load_key(key.as_mut_ptr(), std::ptr::null()));
    assert_eq!(key, [0; 512]);
    assert!(as_c!(PMIx_Check_key(c"a".as_ptr(), c"a".as_ptr())));
    assert!(!as_c!(PMIx_Check_key(c"a".as_ptr(), std::ptr::null())));
    // Regression: the bytes at this address were counted before it was checked.
    let impossible: *const c_char = std::ptr::without_provenance(8);
    assert!(!as_c!(PMIx_Check_key(impossible, c"a".as_ptr())));
    assert!(as_c!(PMIx_Nspace_invalid(impossible)));
    assert!(as_c!(PMIx_Check_nspace(c"a".as_ptr(), c"".as_ptr())));
    assert!(!as_c!(PMIx_Check_nspace(c"a".as_ptr(), c"b".as_ptr())));
    assert!(PMIx_Check_rank(3, Rank::Wildcard.to_raw()) && !PMIx_Check_rank(3, 4));
    assert!(PMIx_Rank_valid(Rank::PROCESS_MAX) && !PMIx_Rank_valid(Rank::Wildcard.to_raw()));
    assert!(as_c!(PMIx_Check_reserved_key(c"pmix.rank".as_ptr())));
}

#[test]
fn a_cluster_is_put_before_a_namespace_and_taken_off_again() {
    let (mut target, mut cluster, mut nspace) = ([0; 256], [0; 256], [0; 256]);
    as_c!(PMIx_Load_nspace(cluster.as_mut_ptr(), c"one".as_ptr()));
    as_c!(PMIx_Load_nspace(nspace.as_mut_ptr(), c"job:1".as_ptr()));
    as_c!(PMIx_Multicluster_nspace_construct(target.as_mut_ptr(), cluster.as_mut_ptr(), nspace.as_mut_ptr()));
    (cluster, nspace) = ([7; 256], [7; 256]);
    as_c!(PMIx_Multicluster_nspace_parse(target.as_mut_ptr(), cluster.as_mut_ptr(), nspace.as_mut_ptr()));
    assert_eq!(pointer::fixed_text(&cluster, "cluster").unwrap(), b"one");
    assert_eq!(pointer::fixed_text(&nspace, "namespace").unwrap(), b"job:1");
}

#[test]
fn structures_are_empty_as_the_standard_has_them() {
    /// The structures of a function that makes so many.
    fn made<'a, T>(first: *mut T, count: usize) -> &'a [T] {
        // SAFETY: so many were made just now; they are released at the end of the test.
        unsafe { pointer::slice(first, count, "structures") }.unwrap()
    }
    let procs = processes::PMIx_Proc_create(2);
    assert_eq!(made(procs, 2)[1].rank, Rank::Undefined.to_raw());
    as_c!(processes::PMIx_Proc_free(procs, 2));
    let distances = devices::PMIx_Device_distance_create(1);
    let distance = &made(distances, 1)[0];
    assert_eq!((distance.mindist, distance.maxdist), (u16::MAX, u16::MAX));
    as_c!(devices::PMIx_Device_distance_free(distances, 1));
    let coords = PMIx_Coord_create(3, 2);
    assert_eq!(made(coords, 2)[1].dims, 3);
    as_c!(devices::PMIx_Coord_free(coords, 2));
    let array = PMIx_Data_array_create(2, DataType::Proc.to_raw());
    let elements = made(array, 1)[0].array.cast::<pmix_proc_t>();
    assert_eq!(made(elements, 2)[1].rank, Rank::Undefined.to_raw());
    as_c!(PMIx_Data_array_free(array));
}

#[test]
fn structures_may_be_null_for_those_who_release_them() {
    as_c!(PMIx_App_free(std::ptr::null_mut(), 3));
    as_c!(PMIx_Query_release(std::ptr::null_mut()));
    as_c!(PMIx_Value_destruct(std::ptr::null_mut()));
    as_c!(PMIx_Argv_free(std::ptr::null_mut()));
}

#[test]
fn statuses_and_attributes_have_their_names() {
    assert_eq!(lasting(PMIx_Error_string(-46)), "PMIX_ERR_NOT_FOUND");
    assert_eq!(lasting(PMIx_Error_string(12345)), "PMIX_ERR_UNNAMED");
    assert_eq!(as_c!(PMIx_Error_code(c"PMIX_ERR_NOT_FOUND".as_ptr())), -46);
    assert_eq!(as_c!(PMIx_Error_code(c"nothing".as_ptr())), i32::MIN);
    assert_eq!(lasting(as_c!(PMIx_Get_attribute_string(c"PMIX_JOB_SIZE".as_ptr()))), "pmix.job.size");
    assert_eq!(lasting(as_c!(PMIx_Get_attribute_name(c"pmix.job.size".as_ptr()))), "PMIX_JOB_SIZE");
    let unknown = c"my.key".as_ptr();
    assert_eq!(as_c!(PMIx_Get_attribute_string(unknown)), unknown);
    assert_eq!(PMIx_Scope_string(3), PMIx_Scope_string(3), "a name is made once");
    assert_eq!(lasting(PMIx_Data_type_string(24)), "PMIX_INFO");
    assert_eq!(taken(PMIx_Info_directives_string(0x11)), "REQUIRED:PERSISTENT");
}

#[test]
fn names_of_codes_are_those_of_the_constants() {
    assert_eq!(code_names::scope(codes::scope::GLOBAL), "PMIX_GLOBAL");
    assert_eq!(code_names::data_range(codes::range::RANGE_NAMESPACE), "PMIX_RANGE_NAMESPACE");
    assert_eq!(code_names::proc_state(codes::proc_state::PROC_STATE_RUNNING), "PMIX_PROC_STATE_RUNNING");
    assert_eq!(code_names::job_state(codes::job_state::JOB_STATE_TERMINATED), "PMIX_JOB_STATE_TERMINATED");
    assert_eq!(code_names::persistence(codes::persistence::PERSIST_APP), "PMIX_PERSIST_APP");
    assert_eq!(code_names::device_type(codes::device_type::DEVTYPE_GPU), "PMIX_DEVTYPE_GPU");
    assert_eq!(code_names::scope(200), code_names::UNKNOWN);
}

#[test]
fn published_data_are_loaded_and_transferred() {
    let mut proc = Single::<pmix_proc_t>::constructed().into_raw();
    as_c!(PMIx_Load_procid(&raw mut proc, c"ns".as_ptr(), 5));
    let pdata = PMIx_Pdata_create(2);
    let second = pdata.wrapping_add(1);
    as_c!(PMIx_Pdata_load(pdata, &raw const proc, c"key".as_ptr(), c"text".as_ptr().cast(), 3));
    as_c!(PMIx_Pdata_xfer(second, pdata));
    // SAFETY: the second of two made above.
    let read = from_c::pdata(unsafe { Counted::new(second, 1) }).unwrap();
    assert_eq!((read[0].proc.to_string().as_str(), read[0].key.as_str()), ("ns:5", "key"));
    assert_eq!(read[0].value, Value::from("text"));
    as_c!(PMIx_Pdata_free(pdata, 2));
}
