//! Every value crosses the border and comes back.

use modex::bfrops::{Codec, DecodeLimits, Generation};
use modex::types::{DataArray, DataType, Info, InfoFlags, Key, LocalAddress, Namespace, Rank, Text, Value};
use proptest::prelude::*;

use super::{Depth, Form, Own, Regex, Whole};
use crate::argument::as_c::as_c;
use crate::argument::{Counted, In};
use crate::error::CError;
use crate::to_c::{self, Array, Single};
use crate::types::{
    c_char, pmix_byte_object_t, pmix_cpuset_t, pmix_data_array_t, pmix_info_t, pmix_proc_info_t, pmix_proc_t,
    pmix_topology_t, pmix_value_t,
};
use crate::{from_c, memory};

#[expect(dead_code, reason = "the wire needs the others")]
#[path = "../../../tests/support/values.rs"]
mod strategies;

/// Values of every type: only one generation has the statistics, only the other one the newest types.
pub(crate) fn values() -> impl Strategy<Value = Value> {
    let codec = |generation| Codec { generation, described: false };
    prop_oneof![strategies::value(codec(Generation::V41)), strategies::value(codec(Generation::V61))]
}

/// The value as C owns it: no part belongs to another owner.
pub(crate) fn owned(mut value: Value) -> Value {
    disown(&mut value);
    value
}

fn disown(value: &mut Value) {
    let disown_all = |infos: &mut Vec<Info>| infos.iter_mut().for_each(disown_info);
    match value {
        Value::Value(inner) => disown(inner),
        Value::Info(info) => disown_info(info),
        Value::Pdata(pdata) => disown(&mut pdata.value),
        Value::DataArray(array) => array.elements.iter_mut().for_each(disown),
        Value::App(app) => disown_all(&mut app.info),
        Value::Query(query) => disown_all(&mut query.qualifiers),
        _ => {}
    }
}

fn disown_info(info: &mut Info) {
    info.flags &= !InfoFlags::PERSISTENT.bits();
    disown(&mut info.value);
}

/// Errors of types without a structure, and of texts that are no sets of processors or topologies.
pub(crate) fn is_expected(error: &CError) -> bool {
    matches!(error, CError::NoForm { data_type: DataType::Buffer | DataType::Kval } | CError::Hwloc { .. })
}

proptest! {
    #[test]
    fn a_value_comes_back_from_c_as_it_went(value in values()) {
        let value = owned(value);
        match Single::<pmix_value_t>::new(&value) {
            Ok(foreign) => {
                let back = from_c::value(foreign.whole()).unwrap();
                prop_assert_eq!(&back, &value);
                let copy = copy_of(&foreign);
                // The copy is independent of what is released.
                drop(foreign);
                prop_assert_eq!(from_c::value(copy.whole().at(0).unwrap()).unwrap(), value);
            }
            Err(error) => prop_assert!(is_expected(&error), "{error}"),
        }
    }
}

/// A deep copy of a structure.
fn copy_of<F: Form>(single: &Single<F>) -> Array<F> {
    // SAFETY: one structure, which owns all that it names.
    Array::copied(unsafe { Counted::new(single.as_ptr(), 1) }).unwrap()
}

#[test]
fn a_persistent_value_is_not_released_with_its_info() {
    let mut array = to_c::infos(&[Info::new(Key::from_static("k"), "text")]).unwrap();
    // SAFETY: below, the info gives its text up, and the test releases it.
    let info = unsafe { &mut array.as_mut_slice()[0] };
    let text = info.value.data.string();
    info.flags |= InfoFlags::PERSISTENT.bits();
    // SAFETY: the info was made just now, and is empty afterwards.
    pmix_info_t::destruct(unsafe { Own::new(info) });
    assert_eq!(as_c!(from_c::text(text)).unwrap(), Some(Text::from("text")));
    // SAFETY: nobody uses it any more.
    unsafe { memory::release(text) };
}

#[test]
fn conversion_removes_the_persistent_flag_of_infos() {
    let info = Info { key: Key::from_static("k"), flags: 0x11, value: Value::Bool(true) };
    let mut array = to_c::infos(std::slice::from_ref(&info)).unwrap();
    // SAFETY: the value is a boolean, which owns nothing.
    let foreign = unsafe { &mut array.as_mut_slice()[0] };
    assert_eq!(foreign.flags, 0x1 | InfoFlags::ARRAY_END.bits());
    foreign.flags = 0x11;
    let read = from_c::info(array.whole().at(0).unwrap()).unwrap();
    assert_eq!(Single::<pmix_info_t>::new(&read).unwrap().get().flags, 0x1);
    // SAFETY: as above.
    let infos = unsafe { array.as_mut_slice() };
    infos[0].flags = 0;
}

#[test]
fn members_that_never_travel_survive_a_copy() {
    let mut from = Single::<pmix_proc_info_t>::constructed();
    // SAFETY: the member is a number.
    unsafe { from.get_mut() }.exit_code = 7;
    assert_eq!(copy_of(&from).whole().get()[0].exit_code, 7);
}

#[test]
fn a_bare_map_expression_ends_where_it_says() {
    let blob = b"blob:\0component=zlib:\0size=3:\0a\0b";
    for (given, whole) in
        [(&b"pmix[a:1]\0rest"[..], &b"pmix[a:1]\0"[..]), (b"raw:a,b\0rest", b"raw:a,b\0"), (blob, blob)]
    {
        let object = pmix_byte_object_t { bytes: given.as_ptr().cast_mut().cast(), size: 0 };
        // SAFETY: the expression is followed by more bytes, which must not be taken.
        assert_eq!(Regex::read(unsafe { Whole::new(&object) }, Depth::TOP).unwrap(), whole);
    }
    let endless =
        pmix_byte_object_t { bytes: b"blob:\0component=zlib:\0nothing\0.".as_ptr().cast_mut().cast(), size: 0 };
    // SAFETY: two texts follow the first, as in an expression with a size.
    assert_eq!(Regex::read(unsafe { Whole::new(&endless) }, Depth::TOP), Err(CError::Regex));
}

#[test]
fn counts_and_types_are_checked_before_anything_is_followed() {
    let array = |type_, size, array| pmix_data_array_t { type_, size, array };
    let read = |array: &pmix_data_array_t| {
        // SAFETY: none of these pointers passes the checks, so none is followed.
        pmix_data_array_t::read(unsafe { Whole::new(array) }, Depth::TOP)
    };
    assert_eq!(read(&array(999, 1, std::ptr::null_mut())), Err(CError::UnknownType { code: 999 }));
    assert!(matches!(read(&array(24, usize::MAX, std::ptr::null_mut())), Err(CError::TooMany { .. })));
    assert_eq!(read(&array(24, 1, std::ptr::null_mut())), Err(CError::Null { what: "data array" }));
    assert_eq!(read(&array(0, 3, std::ptr::null_mut())), Err(CError::NoForm { data_type: DataType::Undefined }));
    // SAFETY: NULL is not followed.
    let infos = |count| from_c::infos(unsafe { Counted::new(std::ptr::null(), count) });
    assert!(infos(0).unwrap().is_empty());
    assert!(infos(1).is_err());
}

/// Regression: a server process's calls of its own functions lost the address, and the host found NULL.
#[test]
fn a_pointer_keeps_its_address_in_this_process_also_inside_others() {
    let mut target = 7_u8;
    let pointer = Value::Pointer(LocalAddress::new((&raw mut target).expose_provenance()));
    let array = Value::DataArray(Box::new(DataArray {
        element_type: DataType::Pointer,
        elements: vec![pointer.clone(), Value::Pointer(LocalAddress::default())],
    }));
    for value in [pointer, array, Value::info_array(vec![])] {
        let foreign = Single::<pmix_value_t>::new(&value).unwrap();
        assert_eq!(from_c::value(foreign.whole()).unwrap(), value);
        if matches!(value, Value::Pointer(_)) {
            assert_eq!(foreign.get().data.ptr(), (&raw mut target).cast());
        }
    }
}

#[test]
fn a_value_that_contains_itself_ends() {
    let mut array = pmix_data_array_t { type_: DataType::DataArray.to_raw(), size: 1, array: std::ptr::null_mut() };
    array.array = (&raw mut array).cast();
    // SAFETY: the array is alive; its only element is itself.
    let read = pmix_data_array_t::read(unsafe { Whole::new(&array) }, Depth::TOP);
    assert!(matches!(read, Err(CError::TooDeep { .. })));
}

/// Deep arrays are read, written, copied and released with little stack. Deeper ones are an error, and are released all
/// the same.
#[test]
fn deep_arrays_cross_on_a_small_stack() {
    let test = || {
        let nested = |levels: u32| {
            let array = |inner| Value::info_array(vec![Info::new(Key::from_static("k"), inner)]);
            (0..levels).fold(Value::Bool(true), |inner, _| array(inner))
        };
        let deepest = nested(DecodeLimits::NESTING_MAX / 2 - 1);
        let foreign = Single::<pmix_value_t>::new(&deepest).unwrap();
        assert!(from_c::value(foreign.whole()).unwrap() == deepest);
        // The copy is released at once.
        let _: Array<pmix_value_t> = copy_of(&foreign);
        let too_deep = Single::<pmix_value_t>::new(&nested(20_000)).unwrap();
        assert!(matches!(from_c::value(too_deep.whole()), Err(CError::TooDeep { limit: 2049 })));
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(test);
    thread.unwrap().join().unwrap();
}

#[test]
fn an_empty_namespace_is_ones_own() {
    let own = Namespace::new("own").unwrap();
    let foreign = pmix_proc_t { nspace: [0; 256], rank: 3 };
    // SAFETY: the process is alive, and has no pointers.
    let given = unsafe { In::new(&raw const foreign) };
    let proc = from_c::some_proc(given, Some(&own)).unwrap();
    assert_eq!((proc.namespace, proc.rank), (own.clone(), Rank::Process(3)));
    assert!(from_c::some_proc(given, None).is_err());
    let other = to_c::proc(&modex::types::ProcId::new(Namespace::new("other").unwrap(), 1));
    let procs = [foreign, other, other, foreign];
    // SAFETY: four processes.
    let procs = from_c::procs(unsafe { Counted::new(procs.as_ptr(), 4) }, Some(&own)).unwrap();
    let names: Vec<&str> = procs.iter().map(|proc| proc.namespace.as_str()).collect();
    assert_eq!(names, ["own", "other", "other", "own"]);
}

#[test]
fn keys_without_an_end_or_beyond_the_limit_are_refused() {
    let long = [b'k'.cast_signed(); 600];
    assert!(from_c::key_in_place(&long[..512]).is_err());
    let mut long: Vec<c_char> = long.to_vec();
    long.push(0);
    assert!(as_c!(from_c::key(long.as_ptr())).is_err());
    assert_eq!(as_c!(from_c::key(std::ptr::null())), Err(CError::Null { what: "key" }));
}

#[test]
fn a_set_of_processors_is_libhwlocs() {
    let set = Single::<pmix_cpuset_t>::new(&Some(Text::from("0-3,8"))).unwrap();
    let back = pmix_cpuset_t::read(set.whole(), Depth::TOP).unwrap();
    assert_eq!(back, Some(Text::from("0-3,8")));
    assert_eq!(pmix_cpuset_t::read(copy_of(&set).whole().at(0).unwrap(), Depth::TOP).unwrap(), back);
    // Regression: libhwloc took the second text for an empty set.
    for list in ["no list", "0\u{1}"] {
        assert!(matches!(Single::<pmix_cpuset_t>::new(&Some(Text::from(list))), Err(CError::Hwloc { .. })));
    }
}

/// Regression: libhwloc followed such addresses, and the program crashed.
#[test]
fn an_impossible_address_is_no_object_of_libhwloc() {
    let at = std::ptr::without_provenance_mut(8);
    let set = pmix_cpuset_t { source: std::ptr::null_mut(), bitmap: at };
    let topology = pmix_topology_t { source: std::ptr::null_mut(), topology: at };
    // SAFETY: the address is plainly wrong, which P1 permits.
    let set = unsafe { Whole::new(&set) };
    // SAFETY: as above.
    let topology = unsafe { Whole::new(&topology) };
    let refused = |what| CError::BadPointer { what, address: 8 };
    assert_eq!(pmix_cpuset_t::read(set, Depth::TOP), Err(refused("set of processors")));
    assert_eq!(pmix_topology_t::read(topology, Depth::TOP), Err(refused("topology")));
}

#[test]
fn a_topology_is_libhwlocs() {
    let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n\
        <topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" \
        allowed_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\"><object \
        type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" \
        complete_nodeset=\"0x1\" local_memory=\"1024\"/><object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" \
        complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"/></object></topology>";
    let given = modex::types::Topology { xml: Some(Text::from(xml)), support: Vec::new() };
    let foreign = Single::<pmix_topology_t>::new(&given).unwrap();
    let back = pmix_topology_t::read(copy_of(&foreign).whole().at(0).unwrap(), Depth::TOP).unwrap();
    assert!(back.xml.unwrap().to_str().unwrap().contains("NUMANode"));
    assert_eq!(back.support.len(), 32);
}
