//! `modex info`.

use modex_cli::abi;

use crate::launch::modex;

#[test]
fn info_tells_versions_features_and_paths() {
    let text = modex(["info"]).run().success();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
        line.split_once(' ').unwrap().1.trim().to_owned()
    };
    assert_eq!(value("version"), env!("CARGO_PKG_VERSION"));
    // The version in the header and the version that the command prints are one number.
    let header =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../libpmix/include/pmix_version.h")).unwrap();
    let number = |name: &str| {
        let line = header.lines().find(|line| line.starts_with(&format!("#define PMIX_VERSION_{name} "))).unwrap();
        line.split(' ').nth(2).unwrap().trim_end_matches('L').to_owned()
    };
    let stated = ["MAJOR", "MINOR", "RELEASE"].map(number).join(".");
    assert_eq!(value("interface"), format!("PMIx {stated}"));
    assert!(value("features").split(", ").any(|feature| feature == "topology"));
    assert_eq!(value("command"), env!("CARGO_BIN_EXE_modex"));
}

#[test]
fn info_lists_every_function_of_the_table_with_its_support() {
    let text = modex(["info", "--api"]).run().success();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let functions = abi::functions();
    assert_eq!(lines.len(), functions.len());
    for (line, function) in lines.iter().zip(functions) {
        assert_eq!((line[0], line[1..].join(" ").as_str()), (function.name, function.support.words()));
    }
}

#[test]
fn info_prints_json_with_the_functions_when_asked() {
    let plain: serde_json::Value = serde_json::from_str(&modex(["info", "--json"]).run().success()).unwrap();
    assert!(plain["api"].is_null() && plain["version"] == env!("CARGO_PKG_VERSION"), "{plain}");
    let full: serde_json::Value = serde_json::from_str(&modex(["info", "--json", "--api"]).run().success()).unwrap();
    assert_eq!(full["api"].as_array().unwrap().len(), abi::functions().len());
}

#[test]
fn info_lists_the_parameters_with_an_effect_and_what_sets_them() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".pmix")).unwrap();
    let file = home.path().join(".pmix/mca-params.conf");
    std::fs::write(&file, "psec = munge\nforward_envars = A\n").unwrap();
    let info = |options: &[&str]| {
        let command = modex([&["info", "--parameters"], options].concat()).env("HOME", home.path().to_str().unwrap());
        command.env("PMIX_MCA_forward_envars", "B").run().success()
    };
    let text = info(&[]);
    let of_file = format!(
        "psec\n    server: munge in the list: clients of other libraries may prove themselves with munge\n    now munge ({})\n",
        file.display()
    );
    assert!(text.contains(&of_file), "{text}");
    assert!(text.contains("\n    now B (PMIX_MCA_forward_envars)\n"), "{text}");
    assert!(text.contains("\npmix_server_iof_verbose\n    a number above 0: MODEX_LOG=iof=debug, "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&info(&["--json"])).unwrap();
    let rows = json["parameters"].as_array().unwrap();
    let psec = rows.iter().find(|row| row["name"] == "psec").unwrap();
    assert_eq!((&psec["value"], &psec["set_by"]), (&"munge".into(), &file.to_str().unwrap().into()));
    let document = include_str!("../../../docs/parameters.md");
    for row in rows {
        let (name, effect) = (row["name"].as_str().unwrap(), row["effect"].as_str().unwrap());
        let is_in_document = document.lines().any(|line| line == format!("| `{name}` | {effect} |"));
        assert!(is_in_document, "docs/parameters.md lacks {name}");
    }
    assert_eq!(document.lines().skip_while(|line| *line != "| name | effect |").skip(2).count(), rows.len());
    std::fs::write(&file, "pmix_event_caching_window = soon\niof_tag_output = yes\nptl_base_ipv4_ports = x\n").unwrap();
    let text = info(&[]);
    for refused in ["now soon ", "now x "] {
        let line = text.lines().find(|line| line.contains(refused)).unwrap();
        assert!(line.contains("), refused: "), "{line}");
    }
    assert!(text.lines().any(|line| line.contains("now yes ") && line.ends_with(')')), "{text}");
    std::fs::write(&file, "\nmodex_server_one = file:a\n").unwrap();
    let named = format!(
        "modex_server_one\n    tool: the address of the server one\n    now file:a ({}, line 2)\n",
        file.display()
    );
    assert!(info(&[]).ends_with(&named), "{}", info(&[]));
}
