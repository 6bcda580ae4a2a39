//! The tables of `spec/` as rows.

#[expect(dead_code, reason = "the vocabulary test uses the rest of it")]
#[path = "../../../tests/vocabulary/spec.rs"]
pub(crate) mod vocabulary;

/// A row of `spec/abi_functions.tsv`.
pub(crate) struct Function {
    pub(crate) name: String,
    /// `client`, `server`, `tool`, `util` or `data`.
    pub(crate) kind: String,
    /// Whether we export it: a release does, or an RFC that we implement has it.
    pub(crate) is_exported: bool,
    /// Whether 4.2.2 has it.
    pub(crate) in_4_2_2: bool,
    pub(crate) returns: String,
    pub(crate) parameters: String,
}

/// A struct of `spec/abi_structs.md`.
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) align: usize,
    /// Whether 4.2.2 has it.
    pub(crate) in_4_2_2: bool,
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    pub(crate) offset: usize,
    pub(crate) size: usize,
    /// Name in C code: members of the union of a value are `data.flag` and so on.
    pub(crate) name: String,
    pub(crate) c_type: String,
    pub(crate) in_4_2_2: bool,
}

/// A type that is another name for one of C's, or a function pointer.
pub(crate) struct Typedef {
    pub(crate) name: String,
    /// For a scalar its C type or `enum`; for a function pointer its signature with `(*)` in place of the name.
    pub(crate) definition: String,
    /// Whether 4.2.2 has it.
    pub(crate) in_4_2_2: bool,
}

/// An entry of `pmix_server_module_t`.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) typedef: String,
    pub(crate) signature: String,
    /// Offset in the module of 6.1, which the headers declare.
    pub(crate) offset: usize,
    /// Whether 4.2.2 has it (at the same offset).
    pub(crate) in_4_2_2: bool,
}

/// The functions of the table in its order, including those that no examined release exports.
pub(crate) fn functions() -> Vec<Function> {
    let mut lines = include_str!("../../../spec/abi_functions.tsv").lines();
    let header = "name\tkind\tfirst_version\tin_4.2.2\tin_5.0\tin_6.1\tused_by\treturn\tparams";
    assert_eq!(lines.next(), Some(header));
    let rows = lines.map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, kind, since, in_4, in_5, in_6, _, returns, parameters] = fields[..] else {
            panic!("not 9 fields: {line}")
        };
        Function {
            name: name.to_owned(),
            kind: kind.to_owned(),
            // A function of 6.0 may be missing in 6.1, and those of the main line are in no release yet.
            is_exported: [in_4, in_5, in_6].contains(&"y")
                || ["6.0", "7.0-dev", "RFC0029", "tutorial"].contains(&since),
            in_4_2_2: in_4 == "y",
            returns: returns.to_owned(),
            parameters: parameters.to_owned(),
        }
    });
    rows.collect()
}

pub(crate) fn structs() -> Vec<Struct> {
    let sections = document().split("\n### `").skip(1);
    let structs = sections.filter_map(|section| {
        let (heading, body) = section.split_once('\n').unwrap();
        let (name, rest) = heading.split_once("` \u{2014} size ")?;
        let (size, rest) = rest.split_once(", align ").unwrap();
        let (align, versions) = rest.split_once(' ').unwrap();
        let fields = rows(body).map(|[offset, size, name, c_type, versions]| Field {
            offset: offset.parse().unwrap(),
            size: size.parse().unwrap(),
            name: name.trim_matches('`').to_owned(),
            c_type: c_type.trim_matches('`').to_owned(),
            in_4_2_2: versions.is_empty() || versions.contains("4.2.2"),
        });
        Some(Struct {
            name: name.to_owned(),
            size: size.parse().unwrap(),
            align: align.parse().unwrap(),
            in_4_2_2: versions.contains("4.2.2"),
            fields: fields.collect(),
        })
    });
    structs.collect()
}

/// The entries of the server's module in the order of 6.1.
pub(crate) fn module_entries() -> Vec<Entry> {
    let layout: Vec<[&str; 7]> = rows(section("### `pmix_server_module_t`")).collect();
    let signatures: Vec<[&str; 3]> = rows(section("Entry function types")).collect();
    let mut entries: Vec<Entry> = signatures
        .iter()
        .map(|[name, typedef, signature]| {
            let row = layout.iter().find(|row| row[5] == *name).unwrap();
            Entry {
                name: name.trim_matches('`').to_owned(),
                typedef: typedef.trim_matches('`').to_owned(),
                signature: signature.trim_matches('`').to_owned(),
                offset: row[0].parse().unwrap(),
                in_4_2_2: row[2] == *name,
            }
        })
        .collect();
    entries.sort_by_key(|entry| entry.offset);
    assert_eq!(entries.len() * 8, 256, "the module of 6.1 has 32 entries");
    entries
}

pub(crate) fn scalars() -> Vec<Typedef> {
    let rows = rows(section("## Scalar typedefs and enums")).filter(|row: &[&str; 4]| row[0].starts_with('`'));
    rows.map(|[name, c_type, _, since]| Typedef {
        name: name.trim_matches('`').to_owned(),
        definition: c_type.split('`').nth(1).unwrap().to_owned(),
        in_4_2_2: ["3.2+", "4.2.2+"].contains(&since),
    })
    .collect()
}

pub(crate) fn callbacks() -> Vec<Typedef> {
    let rows = rows(section("## Callback typedefs")).filter(|row: &[&str; 3]| row[0].starts_with('`'));
    rows.map(|[name, signature, since]| Typedef {
        name: name.trim_matches('`').to_owned(),
        definition: signature.trim_matches('`').to_owned(),
        in_4_2_2: ["3.2", "4.2.2"].contains(&since),
    })
    .collect()
}

/// The group of `spec/constants.tsv` that holds the members of an enumeration.
pub(crate) fn enumeration_group(typedef: &str) -> &'static str {
    match typedef {
        "pmix_value_cmp_t" => "value_cmp",
        "pmix_group_opt_t" => "group_opt",
        "pmix_group_operation_t" => "group_op",
        "pmix_boolean_t" => "boolean",
        "pmix_fabric_operation_t" => "fabric_op",
        other => panic!("no group is known for the enumeration {other}"),
    }
}

fn document() -> &'static str {
    include_str!("../../../spec/abi_structs.md")
}

/// The text from the line with this beginning to the next heading.
fn section(beginning: &str) -> &'static str {
    let start = document().find(&format!("\n{beginning}")).unwrap_or_else(|| panic!("no section {beginning}"));
    let text = &document()[start + 1..];
    let body = text.split_once('\n').unwrap().1;
    body.split("\n## ").next().unwrap().split("\n### ").next().unwrap()
}

/// The rows with `N` cells of the first Markdown table in a text.
fn rows<const N: usize>(text: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = text.lines().skip_while(|line| !line.starts_with("|--")).skip(1);
    lines.take_while(|line| line.starts_with('|')).filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        cells.try_into().ok()
    })
}
