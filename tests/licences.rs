//! Every crate this package can be built with has a licence that `deny.toml` lists.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failing read fails the test")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn every_dependency_has_a_permitted_licence() {
    let permitted = permitted();
    let packages = packages();
    assert!(packages.len() > 50, "cargo names {} packages only", packages.len());
    let offences: Vec<String> = packages
        .iter()
        .filter(|(_, licence)| !licence.as_ref().is_some_and(|licence| is_permitted(licence, &permitted)))
        .map(|(name, licence)| format!("{name}: {}", licence.as_deref().unwrap_or("none")))
        .collect();
    assert!(offences.is_empty(), "licences that deny.toml does not list:\n{}", offences.join("\n"));
}

#[test]
fn a_choice_needs_one_permitted_licence_and_a_sum_all() {
    let permitted = ["MIT".to_owned(), "Apache-2.0".to_owned()];
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(MIT OR GPL-3.0) AND Apache-2.0"] {
        assert!(is_permitted(good, &permitted), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR ISC) AND MIT"] {
        assert!(!is_permitted(bad, &permitted), "{bad}");
    }
}

/// Licence expressions of published crates are sums of choices. Choices may be in parentheses, or have the old slash.
fn is_permitted(expression: &str, permitted: &[String]) -> bool {
    expression.split(" AND ").all(|choice| {
        let choice = choice.trim_start_matches('(').trim_end_matches(')').replace('/', " OR ");
        choice.split(" OR ").any(|licence| permitted.iter().any(|permitted| permitted == licence.trim()))
    })
}

fn permitted() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let list = text.split("allow = [").nth(1).unwrap().split(']').next().unwrap();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn packages() -> Vec<(String, Option<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (text(&package["name"]).unwrap(), text(&package["license"]))).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
