//! Text of the generated files in `src/keys`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use crate::HEADER;
use crate::spec::AttributeRow;

/// All generated files of `src/keys`, by path relative to the package.
pub(crate) fn files(rows: &[AttributeRow]) -> BTreeMap<PathBuf, String> {
    let areas: BTreeSet<&str> = rows.iter().map(|row| row.realm.as_str()).collect();
    let mut files: BTreeMap<PathBuf, String> =
        areas.iter().map(|area| (format!("src/keys/names/{area}_table.rs").into(), constants(area, rows))).collect();
    files.insert("src/keys/attributes_table.rs".into(), table(rows));
    files.insert("src/keys/names/mod.rs".into(), names_mod(&areas));
    files
}

fn names_mod(areas: &BTreeSet<&str>) -> String {
    let mut text = format!("{HEADER}\n//! A typed constant for every attribute, one file per realm or subject.\n\n");
    for area in areas {
        writeln!(text, "mod {area}_table;").expect("writing to a string");
    }
    text.push('\n');
    for area in areas {
        writeln!(text, "pub use {area}_table::*;").expect("writing to a string");
    }
    text
}

/// The typed constants of one area. The lines are in rustfmt's form.
fn constants(area: &str, rows: &[AttributeRow]) -> String {
    let rows: Vec<&AttributeRow> = rows.iter().filter(|row| row.realm == area).collect();
    let mut items = String::new();
    let mut uses_marker = false;
    for row in rows {
        let (_, value_type) = kind_and_type(&row.value_type);
        uses_marker |= value_type.starts_with("marker::");
        let name = row.macro_name.strip_prefix("PMIX_").expect("a PMIx macro");
        let declaration = format!("pub const {name}: TypedKey<{value_type}> =");
        let value = format!("TypedKey::new({:?});", row.key);
        let gap = if declaration.len() + 1 + value.len() > 120 { "\n    " } else { " " };
        write!(items, "\n{}\n{declaration}{gap}{value}\n", doc(row)).expect("writing to a string");
    }
    let marker = if uses_marker { "use crate::keys::marker;\n" } else { "" };
    format!(
        "{HEADER}\n//! Keys of the area `{area}` in `spec/attributes.tsv`.\n\n\
         use crate::keys::TypedKey;\n{marker}{items}"
    )
}

fn doc(row: &AttributeRow) -> String {
    let mut meaning = String::new();
    for (position, character) in row.meaning.chars().enumerate() {
        if "[]<>*".contains(character) {
            meaning.push('\\');
        }
        meaning.push(if position == 0 { character.to_ascii_uppercase() } else { character });
    }
    let standing = if row.standing.is_empty() { String::new() } else { format!(", {}", row.standing) };
    format!("/// {meaning} (`{}`, since PMIx {}{standing}).", row.macro_name, row.since)
}

/// The sorted attribute table with its index by macro name.
fn table(rows: &[AttributeRow]) -> String {
    let mut sorted: Vec<&AttributeRow> = rows.iter().collect();
    sorted.sort_by_key(|row| (row.key.clone(), row.preference()));
    let mut by_macro: Vec<usize> = (0..sorted.len()).collect();
    by_macro.sort_by_key(|&index| sorted.get(index).map(|row| row.macro_name.as_str()));

    let mut text = format!(
        "{HEADER}\n//! The attribute table made from `spec/attributes.tsv`. The last column has its words.\n\n\
         use super::attribute::Realm::{{Application, Job, Node, Other, Process, Session}};\n\
         use super::attribute::Standing::{{Current, Deprecated, Internal, RemovedAfter}};\n\
         use super::attribute::ValueKind as Kind;\n\
         use super::attribute::{{Attribute, row}};\n\n\
         /// All attributes, sorted by key string, then by preference. The binary holds a packed form of it: see\n\
         /// `packed`.\n\
         #[expect(clippy::large_const_arrays, reason = \"only the compiler reads it\")]\n\
         pub(super) const ROWS: [Attribute; {}] = [\n",
        sorted.len()
    );
    for row in sorted {
        let AttributeRow { macro_name, key, since, meaning, .. } = row;
        let (kind, _) = kind_and_type(&row.value_type);
        let (standing, realm) = (standing(&row.standing), realm(&row.realm));
        writeln!(text, "    row({macro_name:?}, {key:?}, Kind::{kind}, {since:?}, {standing}, {realm}, {meaning:?}),")
            .expect("writing to a string");
    }
    text.push_str("];\n\n/// Positions in `ROWS`, sorted by macro name.\n");
    text.push_str("pub(super) static BY_MACRO: &[u16] = &[\n");
    for line in by_macro.chunks(16) {
        let line: Vec<String> = line.iter().map(usize::to_string).collect();
        writeln!(text, "    {},", line.join(", ")).expect("writing to a string");
    }
    text.push_str("];\n");
    text
}

fn standing(text: &str) -> String {
    match (text, text.strip_prefix("removed after ")) {
        ("", _) => "Current".to_owned(),
        ("deprecated", _) => "Deprecated".to_owned(),
        ("internal", _) => "Internal".to_owned(),
        (_, Some(version)) => format!("RemovedAfter({version:?})"),
        _ => panic!("unforeseen word in the column `deprecated`: {text}"),
    }
}

fn realm(text: &str) -> String {
    match text {
        "session" => "Session".to_owned(),
        "job" => "Job".to_owned(),
        "app" => "Application".to_owned(),
        "node" => "Node".to_owned(),
        "proc" => "Process".to_owned(),
        subject => format!("Other({subject:?})"),
    }
}

/// The `ValueKind` of a C type, and the type parameter of its `TypedKey`.
fn kind_and_type(c_type: &str) -> (&'static str, &'static str) {
    match c_type {
        "bool" => ("Bool", "bool"),
        "char*" => ("String", "str"),
        "int" => ("Int", "i32"),
        "int32_t" => ("Int32", "i32"),
        "uint16_t" => ("Uint16", "u16"),
        "uint32_t" => ("Uint32", "u32"),
        "uint64_t" => ("Uint64", "u64"),
        "float" => ("Float", "f32"),
        "double" => ("Double", "f64"),
        "size_t" => ("Size", "marker::Size"),
        "pid_t" => ("Pid", "marker::Pid"),
        "time_t" => ("Time", "marker::Time"),
        "struct timeval" => ("Timeval", "marker::Timeval"),
        "pmix_status_t" => ("Status", "marker::StatusCode"),
        "pmix_rank_t" => ("Rank", "marker::Rank"),
        "pmix_proc_t*" => ("Proc", "marker::Proc"),
        "pmix_data_array_t*" => ("Array", "marker::Array"),
        "pmix_byte_object_t" => ("Bytes", "marker::Bytes"),
        "pmix_envar_t*" => ("Envar", "marker::Envar"),
        "pmix_scope_t" => ("Scope", "marker::Scope"),
        "pmix_data_range_t" => ("Range", "marker::Range"),
        "pmix_persistence_t" => ("Persistence", "marker::Persistence"),
        "pmix_proc_state_t" => ("ProcState", "marker::ProcState"),
        "pmix_link_state_t" => ("LinkState", "marker::LinkState"),
        "pmix_device_type_t" => ("DeviceType", "marker::DeviceType"),
        "pmix_geometry_t" => ("Geometry", "marker::Geometry"),
        "pmix_cpuset_t*" => ("Cpuset", "marker::Cpuset"),
        "pmix_topology_t*" => ("Topology", "marker::Topology"),
        "pmix_alloc_inheritance_t" => ("AllocInheritance", "marker::AllocInheritance"),
        "pmix_storage_medium_t" => ("StorageMedium", "marker::StorageMedium"),
        "pmix_storage_accessibility_t" => ("StorageAccessibility", "marker::StorageAccessibility"),
        "pmix_storage_persistence_t" => ("StoragePersistence", "marker::StoragePersistence"),
        "pmix_storage_access_type_t" => ("StorageAccessType", "marker::StorageAccessType"),
        "pointer" | "void*" | "struct event_base *" | "hwloc_topology_t" => ("Pointer", "marker::Any"),
        "varies" => ("Varies", "marker::Any"),
        "none" => ("None", "marker::Any"),
        "env" => ("EnvironmentVariable", "marker::EnvironmentVariable"),
        other => panic!("no Rust type is known for the value type {other}"),
    }
}
