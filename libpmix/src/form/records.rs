//! The structures that hold no values of any type.

use modex::types::{
    Coord, Device, DeviceDistance, Endpoint, Envar, Geometry, NodePid, ProcId, ProcInfo, Regattr, Regex2, ResourceUnit,
};

use super::record::record;
use super::{Argv, KeyString, Letter, NamespaceField, Pid, Plain, RankNumber, Size, Str};
use crate::types::{
    pmix_byte_object_t, pmix_coord_t, pmix_device_distance_t, pmix_device_t, pmix_endpoint_t, pmix_envar_t,
    pmix_geometry_t, pmix_node_pid_t, pmix_proc_info_t, pmix_proc_t, pmix_regattr_t, pmix_regex2_t,
    pmix_resource_unit_t,
};

record! {
    ProcId as pmix_proc_t {
        namespace = nspace: NamespaceField,
        rank = rank: RankNumber,
        ; empty { rank = u32::MAX, }
    }
    ProcInfo as pmix_proc_info_t {
        proc = proc: pmix_proc_t,
        hostname = hostname: Str,
        executable = executable_name: Str,
        pid = pid: Pid,
        state = state: Plain<u8>,
        ; kept { exit_code, }
    }
    Envar as pmix_envar_t {
        name = envar: Str,
        value = value: Str,
        separator = separator: Letter,
    }
    Coord as pmix_coord_t {
        view = view: Plain<u8>,
        ; lists { positions = coord[dims]: Plain<u32>, }
    }
    Regattr as pmix_regattr_t {
        name = name: Str,
        key = string: KeyString,
        data_type = type_: Plain<u16>,
        description = description: Argv,
    }
    Geometry as pmix_geometry_t {
        fabric = fabric: Size,
        uuid = uuid: Str,
        os_name = osname: Str,
        ; lists { coordinates = coordinates[ncoords]: pmix_coord_t, }
    }
    Endpoint as pmix_endpoint_t {
        uuid = uuid: Str,
        os_name = osname: Str,
        bytes = endpt: pmix_byte_object_t,
    }
    Device as pmix_device_t {
        uuid = uuid: Str,
        os_name = osname: Str,
        device_type = type_: Plain<u64>,
    }
    DeviceDistance as pmix_device_distance_t {
        uuid = uuid: Str,
        os_name = osname: Str,
        device_type = type_: Plain<u64>,
        minimum = mindist: Plain<u16>,
        maximum = maxdist: Plain<u16>,
        ; empty { mindist = u16::MAX, maxdist = u16::MAX, }
    }
    NodePid as pmix_node_pid_t {
        hostname = hostname: Str,
        node_id = nodeid: Plain<u32>,
        pid = pid: Pid,
        ; empty { nodeid = u32::MAX, }
    }
    ResourceUnit as pmix_resource_unit_t {
        device_type = type_: Plain<u64>,
        count = count: Size,
    }
    Regex2 as pmix_regex2_t {
        encoding = type_: Str,
        ; lists { bytes = bytes[len]: Plain<u8>, }
    }
}
