//! Programs that state the facts of headers. One compiles only if they agree with `spec/`. The other prints the facts,
//! for a comparison of two sets of headers.

use std::fmt::Write;

use crate::render;
use crate::tables::{self, Struct};

const INCLUDES: &str = "#include <stddef.h>\n#include <pmix.h>\n#include <pmix_server.h>\n#include <pmix_tool.h>\n";

/// C11 that compiles if every constant, string, size and offset is the table's.
pub(crate) fn assertions() -> String {
    let mut text = INCLUDES.to_owned();
    let mut assert = |condition: String| {
        let quoted = condition.replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(text, "_Static_assert({condition}, \"{quoted}\");").unwrap();
    };
    for row in render::current_constants() {
        assert(format!("{} == {}", row.name, row.value));
    }
    for row in render::current_attributes() {
        assert(format!("__builtin_strcmp({}, {:?}) == 0", row.macro_name, row.key));
    }
    for Struct { name, size, align, fields, .. } in tables::structs() {
        assert(format!("sizeof({name}) == {size} && _Alignof({name}) == {align}"));
        for field in fields {
            let (path, offset, size) = (&field.name, field.offset, field.size);
            assert(format!("offsetof({name}, {path}) == {offset} && sizeof((({name} *) 0)->{path}) == {size}"));
        }
    }
    for entry in tables::module_entries() {
        assert(format!("offsetof(pmix_server_module_t, {}) == {}", entry.name, entry.offset));
    }
    for function in tables::functions().iter().filter(|function| function.is_exported) {
        assert(format!("sizeof(&{}) == sizeof(void *)", function.name));
    }
    text
}

/// C++ that prints a set of headers' facts about everything in 4.2.2: values, layouts and types. Types are in the
/// compiler's mangled spelling, which tells `const`, signedness and tags apart.
pub(crate) fn report_of_4_2_2() -> String {
    let mut body = String::new();
    for row in render::current_constants() {
        let name = &row.name;
        if render::enumerations().contains_key(row.group.as_str()) {
            if !["5.", "6.", "7."].iter().any(|late| row.since.starts_with(late)) {
                writeln!(body, "number(\"{name}\", {name});").unwrap();
            }
        } else {
            writeln!(body, "#ifdef {name}\nnumber(\"{name}\", {name});\n#endif").unwrap();
        }
    }
    for row in render::current_attributes() {
        let name = &row.macro_name;
        writeln!(body, "#ifdef {name}\nprintf(\"{name} = %s\\n\", {name});\n#endif").unwrap();
    }
    let mut type_of = |name: &str, expression: &str| {
        writeln!(body, "printf(\"{name} : %s\\n\", typeid({expression}).name());").unwrap();
    };
    for typedef in tables::scalars().iter().chain(&tables::callbacks()).filter(|typedef| typedef.in_4_2_2) {
        type_of(&typedef.name, &typedef.name);
    }
    for entry in tables::module_entries().iter().filter(|entry| entry.in_4_2_2) {
        type_of(&entry.typedef, &entry.typedef);
    }
    for function in tables::functions().iter().filter(|function| function.in_4_2_2) {
        type_of(&function.name, &format!("decltype(&{})", function.name));
    }
    for item in tables::structs().iter().filter(|item| item.in_4_2_2) {
        let name = &item.name;
        writeln!(body, "printf(\"{name} %zu %zu\\n\", sizeof({name}), alignof({name}));").unwrap();
        for field in item.fields.iter().filter(|field| field.in_4_2_2 && field.c_type != "union") {
            let path = &field.name;
            writeln!(body, "field({name}, {path});").unwrap();
        }
    }
    for entry in tables::module_entries().iter().filter(|entry| entry.in_4_2_2) {
        writeln!(body, "field(pmix_server_module_t, {});", entry.name).unwrap();
    }
    format!(
        "#include <stdio.h>\n#include <typeinfo>\n{INCLUDES}\
         template <typename T> static void number(const char *name, T value)\n\
         {{ printf(\"%s = %lld : %s\\n\", name, (long long) value, typeid(T).name()); }}\n\
         #define field(type, path) printf(#type \".\" #path \" at %zu, %zu : %s\\n\", offsetof(type, path), \\\n\
         sizeof(((type *) 0)->path), typeid(decltype(((type *) 0)->path)).name())\n\
         int main() {{\n{body}}}\n"
    )
}
