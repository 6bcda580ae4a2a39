//! The text of the generated headers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::tables::vocabulary::{self, AttributeRow, ConstantRow};
use crate::tables::{self, Function, Struct, Typedef};

/// Columns of a line.
const WIDTH: usize = 120;

/// Declared in `pmix_deprecated.h`, where programs that include only `pmix_common.h` find it.
const DEPRECATED: &[&str] = &["PMIx_tool_connect_to_server"];

/// Every generated header by its path.
pub(crate) fn headers() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("libpmix/include/modex/constants.h", constants()),
        ("libpmix/include/modex/attributes.h", attributes()),
        ("libpmix/include/modex/types.h", types()),
        (
            "libpmix/include/modex/functions.h",
            functions(
                "MODEX_FUNCTIONS_H",
                "pmix_common.h",
                "Helpers that need no initialised library.",
                &["data", "util"],
            ),
        ),
        (
            "libpmix/include/pmix.h",
            functions("PMIx_H", "pmix_common.h", "What the processes of a job call.", &["client"]),
        ),
        (
            "libpmix/include/pmix_server.h",
            functions("PMIx_SERVER_API_H", "pmix.h", "What a resource manager calls, on each node.", &["server"]),
        ),
        ("libpmix/include/pmix_tool.h", functions("PMIx_TOOL_API_H", "pmix.h", "What tools call.", &["tool"])),
    ])
}

/// Constants that the headers define: without those removed before 4.2, and without those of `pmix_version.h`.
pub(crate) fn current_constants() -> Vec<ConstantRow> {
    let handwritten = ["version", "capability", "other"];
    let rows = vocabulary::constants().into_iter();
    rows.filter(|row| !handwritten.contains(&row.group.as_str()) && !gone(&row.notes, "last in ")).collect()
}

/// Attributes that the headers define: without those removed before 4.2.
pub(crate) fn current_attributes() -> Vec<AttributeRow> {
    vocabulary::attributes().into_iter().filter(|row| !gone(&row.standing, "removed after ")).collect()
}

/// The number as a C expression with the type of a decimal or hexadecimal literal.
pub(crate) fn number(row: &ConstantRow) -> String {
    let is_bits = ["info_flag", "iof_channel", "device_type", "locality"].contains(&row.group.as_str())
        || row.group.starts_with("storage_");
    match row.value {
        value if value > i64::from(i32::MAX) => format!("0x{value:08x}U"),
        value if value < 0 => format!("({value})"),
        value if is_bits => format!("0x{value:04x}"),
        value => value.to_string(),
    }
}

/// The typedefs of enumerations, by group of constants.
pub(crate) fn enumerations() -> BTreeMap<&'static str, String> {
    let enums = tables::scalars().into_iter().filter(|scalar| scalar.definition == "enum");
    enums.map(|scalar| (tables::enumeration_group(&scalar.name), scalar.name)).collect()
}

fn gone(remark: &str, phrase: &str) -> bool {
    let Some((_, version)) = remark.split_once(phrase) else { return false };
    ["1.", "2.", "3.", "4.0", "4.1"].iter().any(|old| version.starts_with(old))
}

fn constants() -> String {
    let mut groups: BTreeMap<String, Vec<ConstantRow>> = BTreeMap::new();
    for row in current_constants() {
        groups.entry(row.group.clone()).or_default().push(row);
    }
    let mut body = String::new();
    for (group, rows) in &groups {
        if enumerations().contains_key(group.as_str()) {
            continue;
        }
        write!(body, "\n/* {} */\n", group.replace('_', " ")).unwrap();
        for row in rows {
            let remark = if row.notes.contains("deprecated") { " /* deprecated */" } else { "" };
            writeln!(body, "#define {} {}{remark}", row.name, number(row)).unwrap();
        }
    }
    frame("MODEX_CONSTANTS_H", "spec/constants.tsv", "Codes and limits.", None, &body)
}

fn attributes() -> String {
    let rows = current_attributes();
    let realms: BTreeSet<&str> = rows.iter().map(|row| row.realm.as_str()).collect();
    let mut body = String::new();
    for realm in realms {
        write!(body, "\n/* {realm} */\n").unwrap();
        for row in rows.iter().filter(|row| row.realm == realm) {
            let standing = if row.standing.is_empty() { String::new() } else { format!("{}; ", row.standing) };
            let meaning = row.meaning.split(" [key string").next().unwrap();
            // `*/` would end the comment. No type and no meaning contains it; the compilers would report it.
            writeln!(body, "#define {} {:?} /* {}: {standing}{meaning} */", row.macro_name, row.key, row.value_type)
                .unwrap();
        }
    }
    let about = "Attribute names, each with the type of its value and what it means.";
    frame("MODEX_ATTRIBUTES_H", "spec/attributes.tsv", about, None, &body)
}

fn types() -> String {
    let mut body = String::new();
    body.push_str("\n/* Scalars */\n");
    for Typedef { name, definition, .. } in tables::scalars() {
        match (name.as_str(), definition.as_str()) {
            ("pmix_nspace_t", _) => body.push_str("typedef char pmix_nspace_t[PMIX_MAX_NSLEN + 1];\n"),
            ("pmix_key_t", _) => body.push_str("typedef char pmix_key_t[PMIX_MAX_KEYLEN + 1];\n"),
            (_, "enum") => body.push_str(&enumeration(&name)),
            _ => writeln!(body, "typedef {definition} {name};").unwrap(),
        }
    }
    body.push_str("\n/* Structures */\n");
    let structs = tables::structs();
    let mut written = BTreeSet::new();
    for item in &structs {
        write_struct(item, &structs, &mut written, &mut body);
    }
    body.push_str("\n/* Callbacks. Each runs only after the function that received it has returned. */\n");
    for Typedef { name, definition, .. } in tables::callbacks() {
        body.push_str(&function_pointer(&name, &definition));
    }
    body.push_str(&module());
    let about = "The types of arguments.";
    frame("MODEX_TYPES_H", "spec/abi_structs.md and spec/constants.tsv", about, Some("pmix_common.h"), &body)
}

fn enumeration(typedef: &str) -> String {
    let group = tables::enumeration_group(typedef);
    let members: Vec<String> = current_constants()
        .iter()
        .filter(|row| row.group == group)
        .map(|row| format!("    {} = {}", row.name, row.value))
        .collect();
    format!("typedef enum {{\n{}\n}} {typedef};\n", members.join(",\n"))
}

/// Writes a struct after the structs that it uses, each once.
fn write_struct(item: &Struct, all: &[Struct], written: &mut BTreeSet<String>, body: &mut String) {
    if !written.insert(item.name.clone()) {
        return;
    }
    let named = |field: &tables::Field| field.c_type.trim_end_matches([' ', '*']).to_owned();
    for dependency in item.fields.iter().map(named) {
        if let Some(found) = all.iter().find(|other| other.name == dependency) {
            write_struct(found, all, written, body);
        }
    }
    write!(body, "\ntypedef struct {}{{\n", tag(&item.name)).unwrap();
    let union: Vec<&tables::Field> = item.fields.iter().filter(|field| field.name.starts_with("data.")).collect();
    for field in item.fields.iter().filter(|field| !field.name.starts_with("data.")) {
        if field.c_type == "union" {
            body.push_str("    union {\n");
            for member in &union {
                writeln!(body, "        {}", declaration(&member.c_type, &member.name["data.".len()..])).unwrap();
            }
            writeln!(body, "    }} {};", field.name).unwrap();
        } else {
            writeln!(body, "    {}", declaration(&field.c_type, &field.name)).unwrap();
        }
    }
    writeln!(body, "}} {};", item.name).unwrap();
}

fn declaration(c_type: &str, name: &str) -> String {
    if c_type.ends_with('*') { format!("{c_type}{name};") } else { format!("{c_type} {name};") }
}

/// The tag of a struct, with a blank behind it. C++ mangles it, so it matches the other headers. Some structs have
/// none.
fn tag(name: &str) -> String {
    match name {
        "pmix_regattr_t" => "pmix_regattr_t ".to_owned(),
        "pmix_fabric_t" => "pmix_fabric_s ".to_owned(),
        "pmix_envar_t" | "pmix_cpuset_t" | "pmix_topology_t" => String::new(),
        "pmix_disk_stats_t" | "pmix_net_stats_t" | "pmix_node_stats_t" => String::new(),
        _ => format!("{} ", name.strip_suffix("_t").unwrap()),
    }
}

fn module() -> String {
    let entries = tables::module_entries();
    let mut body =
        "\n/* The functions of a host. A null entry means that the host does not support the function. */\n".to_owned();
    for entry in &entries {
        body.push_str(&function_pointer(&entry.typedef, &entry.signature));
    }
    body.push_str(
        "\n/* Releases add entries at the end. The last four have other places in other releases. The library reads them\n \
         * if it knows the release: from modex.module_size, or because the host has tool_connected2 and log2 instead\n \
         * of older ones. */\n",
    );
    body.push_str("typedef struct pmix_server_module_4_0_0_t {\n");
    for entry in &entries {
        writeln!(body, "    {} {};", entry.typedef, entry.name).unwrap();
    }
    body.push_str("} pmix_server_module_t;\n");
    body
}

fn function_pointer(name: &str, signature: &str) -> String {
    let (returns, parameters) = signature.split_once("(*)").unwrap();
    wrapped(&format!("typedef {returns}(*{name})"), parameters)
}

fn functions(guard: &str, include: &str, about: &str, kinds: &[&str]) -> String {
    let chosen = |function: &&Function| {
        function.is_exported && kinds.contains(&function.kind.as_str()) && !DEPRECATED.contains(&function.name.as_str())
    };
    let mut body = "\n".to_owned();
    for function in tables::functions().iter().filter(chosen) {
        let returns = declaration(&function.returns, &function.name);
        let head = format!("PMIX_EXPORT {}", returns.trim_end_matches(';'));
        body.push_str(&wrapped(&head, &function.parameters.replace("* ", "*")));
    }
    frame(guard, "spec/abi_functions.tsv", about, Some(include), &body)
}

/// `head(parameters);`, wrapped to the line width.
fn wrapped(head: &str, parameters: &str) -> String {
    let mut text = String::new();
    let mut line = format!("{head}(");
    let inner = parameters.trim_start_matches('(').trim_end_matches(')');
    let parts: Vec<&str> = inner.split(", ").collect();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let end = if is_last { ");" } else { "," };
        let gap = if index == 0 { "" } else { " " };
        if line.len() + gap.len() + part.len() + end.len() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = format!("    {part}{end}");
        } else {
            write!(line, "{gap}{part}{end}").unwrap();
        }
    }
    text + &line + "\n"
}

fn frame(guard: &str, source: &str, about: &str, include: Option<&str>, body: &str) -> String {
    let path = if guard.starts_with("MODEX") { "../" } else { "" };
    let path = if include == Some("pmix_common.h") { path } else { "" };
    let include = include.map_or_else(String::new, |file| format!("#include \"{path}{file}\"\n\n"));
    let declares = source != "spec/constants.tsv" && source != "spec/attributes.tsv";
    let (open, close) = if declares {
        ("#ifdef __cplusplus\nextern \"C\" {\n#endif\n", "\n#ifdef __cplusplus\n}\n#endif\n")
    } else {
        ("", "")
    };
    format!(
        "/* Part of modex. Licensed under MIT or Apache-2.0, at your choice.\n \
         * Generated from {source}; to rewrite: MODEX_BLESS=1 cargo test --test abi.\n *\n \
         * {about} */\n#ifndef {guard}\n#define {guard}\n\n{include}{open}{body}{close}\n#endif\n"
    )
}
