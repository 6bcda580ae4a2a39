use std::ffi::CStr;
use std::ptr::{null, null_mut};

use modex::TopologySource;
use modex::types::Topology;

use super::*;
use crate::argument::as_c::as_c;
use crate::error::CError;
use crate::form::{Depth, Form, Own};
use crate::hwloc::RawTopology;
use crate::pointer;

fn empty_set() -> pmix_cpuset_t {
    pmix_cpuset_t { source: null_mut(), bitmap: null_mut() }
}

#[test]
fn a_set_of_processors_is_what_its_string_says() {
    let mut set = empty_set();
    assert_eq!(as_c!(PMIx_Parse_cpuset_string(c"hwloc:0-3,8".as_ptr(), &raw mut set)), 0);
    let mut text = null_mut();
    assert_eq!(as_c!(PMIx_server_generate_cpuset_string(&raw const set, &raw mut text)), 0);
    // SAFETY: the function said it made a string.
    assert_eq!(unsafe { CStr::from_ptr(text) }, c"hwloc:0-3,8");
    // SAFETY: the library made the string for the test, which frees it.
    unsafe { memory::release(text) };
    // SAFETY: the library filled the structure, which is the test's.
    pmix_cpuset_t::destruct(unsafe { Own::new(&mut set) });
    let refused = as_c!(PMIx_Parse_cpuset_string(c"other:0".as_ptr(), &raw mut set));
    assert_eq!(refused, Status::ERR_NOT_SUPPORTED.to_raw());
}

#[test]
fn one_bound_processor_has_a_locality_and_an_unbound_process_none() {
    let mut set = empty_set();
    assert_eq!(as_c!(PMIx_Parse_cpuset_string(c"hwloc:0".as_ptr(), &raw mut set)), 0);
    let mut text = null_mut();
    assert_eq!(as_c!(PMIx_server_generate_locality_string(&raw const set, &raw mut text)), 0);
    if !text.is_null() {
        // SAFETY: the function made a string.
        let locality = unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned();
        assert!(locality.starts_with("hwloc:") && locality.contains("HT0"), "{locality}");
        let mut shared = 0;
        assert_eq!(as_c!(PMIx_Get_relative_locality(text, text, &raw mut shared)), 0);
        assert_ne!(shared & 1, 0);
        // SAFETY: the library made the string for the test, which frees it.
        unsafe { memory::release(text) };
    }
    // SAFETY: the library filled the structure, which is the test's.
    pmix_cpuset_t::destruct(unsafe { Own::new(&mut set) });
    assert_eq!(as_c!(PMIx_server_generate_locality_string(null(), &raw mut text)), 0);
    assert!(text.is_null());
}

#[test]
fn distances_are_computed_for_the_process_that_asks() {
    let mut topology = pmix_topology_t { source: null_mut(), topology: null_mut() };
    assert_eq!(as_c!(PMIx_Load_topology(&raw mut topology)), 0);
    let mut set = empty_set();
    assert_eq!(as_c!(PMIx_Get_cpuset(&raw mut set, 0)), 0);
    let (mut distances, mut count) = (null_mut(), 0);
    let (topo, cpuset) = (&raw mut topology, &raw mut set);
    let status = as_c!(PMIx_Compute_distances(topo, cpuset, null(), 0, &raw mut distances, &raw mut count));
    assert_eq!(status, 0);
    for index in 0..count {
        let device = distances.wrapping_add(index);
        // SAFETY: below the number that the function gave; the array is the test's.
        let device = unsafe { pointer::unique(device, "distance") }.unwrap();
        assert!(device.mindist <= device.maxdist);
        // SAFETY: the library filled the structure, which is the test's.
        pmix_device_distance_t::destruct(unsafe { Own::new(device) });
    }
    // SAFETY: the library made the array for the test, which frees it.
    unsafe { memory::release(distances) };
    // SAFETY: the library filled the structure, which is the test's.
    pmix_cpuset_t::destruct(unsafe { Own::new(&mut set) });
    // SAFETY: the library filled the structure, which is the test's.
    pmix_topology_t::destruct(unsafe { Own::new(&mut topology) });
}

/// Regression: a host with its own libhwloc, of another release, passed an object that this libhwloc misread: memory
/// was corrupted.
#[test]
fn a_topology_of_another_layout_is_as_if_none_was_given() {
    // Every libhwloc stores the number of its layout first.
    let mut other = [u64::MAX; 64];
    // SAFETY: only its first number is looked at.
    assert!(Given::described(unsafe { &*other.as_ptr().cast::<RawTopology>() }).is_none());
    let from = pmix_topology_t { source: null_mut(), topology: other.as_mut_ptr().cast() };
    let mut to = pmix_topology_t { source: null_mut(), topology: null_mut() };
    // SAFETY: only the first number of the object is looked at.
    let refused = pmix_topology_t::copy(unsafe { Whole::new(&from) }, &mut to, Depth::TOP);
    // Without libhwloc no object is read, so the test would prove nothing.
    assert!(matches!(refused, Err(CError::HwlocLayout { .. })), "{refused:?}");
}

/// hwloc's own parser, used without libxml2, accepts no other quotes.
fn in_double_quotes(xml: &str) -> Text {
    Text::from(xml.replace('\'', "\""))
}

/// Regression: callers got the host's own object, also after the host had destroyed it.
#[test]
fn the_topology_object_of_callers_outlives_that_of_the_host() {
    let xml = "<topology version='2.0'><object type='Machine' cpuset='0x1' complete_cpuset='0x1' allowed_cpuset='0x1' nodeset='0x1' \
        complete_nodeset='0x1' allowed_nodeset='0x1'><object type='NUMANode' os_index='0' cpuset='0x1' complete_cpuset='0x1' \
        nodeset='0x1' complete_nodeset='0x1' local_memory='1'/><object type='PU' os_index='0' cpuset='0x1' complete_cpuset='0x1' \
        nodeset='0x1' complete_nodeset='0x1'/></object></topology>";
    let hosts = hwloc::import(&in_double_quotes(xml), hwloc::Of::SomeMachine).unwrap();
    // SAFETY: a topology made just now.
    let topology = HostTopology::new(Given::described(unsafe { &*hosts.cast::<RawTopology>() }).unwrap());
    // SAFETY: made above; the library has not taken it, so this destroys it.
    unsafe { hwloc::destroy_topology(hosts) };
    let ours = topology.object().unwrap();
    let Topology { xml, .. } = hwloc::exported(ours).unwrap();
    assert!(xml.unwrap().to_string_lossy().contains("PU"));
    assert!(std::ptr::eq(topology.object().unwrap(), ours), "one for all who ask");
}

/// Regression: a scheduling host reads processors that its processes may not use. Its numbers of cores differed from
/// those in the topology that the same processes loaded.
#[test]
fn parts_have_the_numbers_of_the_topology_that_processes_load() {
    let set = |name: &str| format!("{name}='0x3' complete_{name}='0x3'");
    let part = |kind: &str, index: u32, inside: &str| {
        let mask = 1 << index;
        let sets = format!("cpuset='{mask:#x}' complete_cpuset='{mask:#x}' nodeset='0x1' complete_nodeset='0x1'");
        format!("<object type='{kind}' os_index='{index}' {sets}>{inside}</object>")
    };
    let core = |index| part("Core", index, &part("PU", index, ""));
    let machine =
        format!("{} allowed_cpuset='0x2' nodeset='0x1' complete_nodeset='0x1' allowed_nodeset='0x1'", set("cpuset"));
    let memory = format!("{} nodeset='0x1' complete_nodeset='0x1' local_memory='1'", set("cpuset"));
    let xml = format!(
        "<topology version='2.0'><object type='Machine' {machine}><object type='NUMANode' os_index='0' {memory}/>{}{}</object>\
         </topology>",
        core(0),
        core(1)
    );
    let told = Topology { xml: Some(in_double_quotes(&xml)), support: Vec::new() };
    let read = HostTopology::new(Given::Described(told)).read().unwrap();
    let machine = modex::topo::Machine::of_xml(&read.xml.unwrap().to_string_lossy()).unwrap();
    let inventory = modex::topo::Inventory::of("n0", &machine);
    assert_eq!((inventory.cores, inventory.processors), (1, 1), "as PMIx_Load_topology's object has them");
    assert_eq!(machine.locality(&"1".parse().unwrap()), None, "on all that there is");
}
