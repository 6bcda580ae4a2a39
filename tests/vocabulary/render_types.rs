//! Text of the generated files in `src/types`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use crate::HEADER;
use crate::spec::ConstantRow;

/// All generated files of `src/types`, by path relative to the package.
pub(crate) fn files(rows: &[ConstantRow]) -> BTreeMap<PathBuf, String> {
    let (status, other): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.group == "status");
    BTreeMap::from([
        ("src/types/status/status_table.rs".into(), status_table(&status)),
        ("src/types/codes/codes_table.rs".into(), codes_table(&other)),
    ])
}

fn status_table(rows: &[&ConstantRow]) -> String {
    let mut text = format!("{HEADER}\n//! Status and event codes made from `spec/constants.tsv`.\n\n");
    text.push_str("use super::Status;\n\nimpl Status {\n");
    for row in rows {
        let ConstantRow { value, .. } = row;
        let declaration = format!("pub const {}: Self = Self({value});", rust_name(row));
        writeln!(text, "    {}\n    {declaration}", doc(row)).expect("writing to a string");
    }
    text.push_str("}\n\n/// Number and preferred name, sorted by number.\n");
    text.push_str("pub(super) static NAMES: &[(i32, &str)] = &[\n");

    let mut preferred: BTreeMap<i64, &ConstantRow> = BTreeMap::new();
    for row in rows {
        let best = preferred.entry(row.value).or_insert(row);
        if row.preference() < best.preference() {
            *best = row;
        }
    }
    for (value, row) in preferred {
        writeln!(text, "    ({value}, {:?}),", row.name).expect("writing to a string");
    }
    text.push_str("];\n");
    text
}

fn codes_table(rows: &[&ConstantRow]) -> String {
    let mut groups: BTreeMap<&str, Vec<&ConstantRow>> = BTreeMap::new();
    for row in rows {
        groups.entry(&row.group).or_default().push(row);
    }
    let mut text = format!("{HEADER}\n//! The groups of constants made from `spec/constants.tsv`.\n");
    for (group, rows) in &groups {
        let (integer, description) = integer_and_description(group);
        write!(text, "\n/// {description}.\npub mod {group} {{\n").expect("writing to a string");
        for row in rows {
            let declaration = format!("pub const {}: {integer} = {};", rust_name(row), row.value);
            writeln!(text, "    {}\n    {declaration}", doc(row)).expect("writing to a string");
        }
        text.push_str("}\n");
    }
    text.push_str("\n/// Macro name and number of every data type, in the order of the TSV.\n");
    text.push_str("pub const DATA_TYPES: &[(&str, u16)] = &[\n");
    for row in groups.get("data_type").into_iter().flatten() {
        writeln!(text, "    ({:?}, {}),", row.name, row.value).expect("writing to a string");
    }
    text.push_str("];\n");
    text
}

/// The macro name without its prefix. A few names of PMIx 1 end in a lower-case C type.
fn rust_name(row: &ConstantRow) -> String {
    row.name.strip_prefix("PMIX_").expect("a PMIx macro").to_uppercase()
}

fn doc(row: &ConstantRow) -> String {
    let notes = if row.notes.is_empty() { String::new() } else { format!("; {}", row.notes) };
    format!("/// `{}`, since PMIx {}{notes}.", row.name, row.since)
}

/// The integer type of a group's C type, and the description of the group.
fn integer_and_description(group: &str) -> (&'static str, &'static str) {
    match group {
        "alloc_directive" => ("u8", "`pmix_alloc_directive_t`: requests about an allocation"),
        "alloc_inheritance" => ("u8", "`pmix_alloc_inheritance_t`: inheritance of an allocation's resources"),
        "appnum" => ("u32", "Special application numbers"),
        "bind_envelope" => ("u8", "`pmix_bind_envelope_t`: the process or thread of a CPU binding"),
        "boolean" => ("u32", "`pmix_boolean_t`: a truth value, or none"),
        "capability" => ("u32", "Capability numbers of the reference library"),
        "coord_view" => ("u8", "`pmix_coord_view_t`: kind of fabric coordinates"),
        "data_type" => ("u16", "`pmix_data_type_t`: types of values, with their numbers on the wire since 2.0"),
        "device_type" => ("u64", "`pmix_device_type_t`: bits for classes of devices"),
        "fabric_op" => ("u32", "`pmix_fabric_operation_t`: requests to a fabric module"),
        "group_op" => ("u32", "`pmix_group_operation_t`: operations on a group"),
        "group_opt" => ("u32", "`pmix_group_opt_t`: answers to a group invitation"),
        "info_flag" => ("u32", "`pmix_info_directives_t`: bits for the treatment of a directive"),
        "iof_channel" => ("u16", "`pmix_iof_channel_t`: bits for forwarded channels"),
        "job_state" => ("u8", "`pmix_job_state_t`: states of a job"),
        "limit" => ("usize", "Longest namespace and key, in bytes without the terminating NUL"),
        "link_state" => ("u8", "`pmix_link_state_t`: states of a fabric link"),
        "locality" => ("u16", "`pmix_locality_t`: bits for the hardware that two processes share"),
        "other" => ("i32", "Constants of early versions that no longer exist"),
        "persistence" => ("u8", "`pmix_persistence_t`: lifetimes of published data"),
        "proc_state" => ("u8", "`pmix_proc_state_t`: states of a process"),
        "range" => ("u8", "`pmix_data_range_t`: receivers of published data or of an event"),
        "rank" => ("u32", "`pmix_rank_t`: ranks with a special meaning"),
        "resource_block_directive" => ("u8", "`pmix_resource_block_directive_t`: requests about a resource block"),
        "scope" => ("u8", "`pmix_scope_t`: readers of a value"),
        "storage_access_type" => ("u16", "`pmix_storage_access_type_t`: bits for reading and writing"),
        "storage_accessibility" => ("u64", "`pmix_storage_accessibility_t`: bits for the nodes that reach the storage"),
        "storage_medium" => ("u64", "`pmix_storage_medium_t`: bits for physical media"),
        "storage_persistence" => ("u64", "`pmix_storage_persistence_t`: bits for the lifetime of stored data"),
        "value_cmp" => ("u32", "`pmix_value_cmp_t`: results of comparing two values"),
        "version" => ("u32", "The version of the reference library that these tables follow"),
        other => panic!("no integer type is known for the constants of group {other}"),
    }
}
