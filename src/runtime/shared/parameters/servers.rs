//! Servers that parameters name: `modex_server_<name> = <address>`. A tool says the name instead of the address.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::{NAME_BYTES_MAX, ParameterFiles, environment, has_more_rights_than_its_starter, is_of_name};

/// The beginning of the parameters.
pub(super) const PREFIX: &str = "modex_server_";

/// A server that a parameter names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedServer {
    /// Its address, or `file:` and a path. Not checked.
    pub address: String,
    /// The variable, or the file and the line.
    pub place: String,
}

/// Whether a text can be the name of a server.
pub(in crate::runtime) fn is_server_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_BYTES_MAX - PREFIX.len() && text.chars().all(is_of_name)
}

/// The server with this name. The error has all names, and the reasons for which lines of files do not count.
pub(in crate::runtime) fn named_server(name: &str) -> Result<NamedServer, (Vec<String>, Vec<String>)> {
    let mut servers = named_servers();
    let complaints = || ParameterFiles::of_process().complaints.clone();
    servers.remove(name).ok_or_else(|| (servers.into_keys().collect(), complaints()))
}

/// The servers that parameters of this process name.
#[must_use]
pub fn named_servers() -> BTreeMap<String, NamedServer> {
    let variables = if has_more_rights_than_its_starter() { Vec::new() } else { environment() };
    all(ParameterFiles::of_process(), &variables)
}

/// The servers of files and variables. An empty address counts as not set.
fn all(files: &ParameterFiles, variables: &[(OsString, OsString)]) -> BTreeMap<String, NamedServer> {
    let of_files = files.values.iter().filter_map(|(parameter, found)| {
        let place = format!("{}, line {}", found.file.display(), found.line);
        Some((parameter.strip_prefix(PREFIX)?.to_owned(), NamedServer { address: found.value.clone(), place }))
    });
    let of_variables = variables.iter().filter_map(|(variable, address)| {
        let variable = std::str::from_utf8(variable.as_bytes()).ok()?;
        let name = variable.strip_prefix(super::PREFIX)?.strip_prefix(PREFIX)?;
        let address = address.to_str()?.to_owned();
        Some((name.to_owned(), NamedServer { address, place: variable.to_owned() }))
    });
    let given = of_files.chain(of_variables);
    given.filter(|(name, server)| is_server_name(name) && !server.address.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_variables_name_servers_and_a_variable_has_precedence() {
        let files = ParameterFiles::of_text(
            "modex_server_one = a.0;tcp4://1.2.3.4:5\n\nmodex_server_two = file:x\n\
             modex_server_ = y\nmodex_server_none =\nmodex_servers_two = z\n",
        );
        let variables = [("PMIX_MCA_modex_server_two", "file:y"), ("modex_server_three", "z"), ("PMIX_MCA_psec", "a")];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let found = all(&files, &variables);
        let found: Vec<_> =
            found.iter().map(|(name, s)| (name.as_str(), s.address.as_str(), s.place.as_str())).collect();
        let of_variable = ("two", "file:y", "PMIX_MCA_modex_server_two");
        assert_eq!(found, [("one", "a.0;tcp4://1.2.3.4:5", "file, line 1"), of_variable]);
    }

    #[test]
    fn an_address_is_no_name() {
        let long = "n".repeat(NAME_BYTES_MAX);
        for text in ["", "a.0;tcp4://1.2.3.4:5", "file:x", "a b", "a/b", "a=b", long.as_str()] {
            assert!(!is_server_name(text), "{text}");
        }
        assert!(is_server_name("Prod-1.site_2"));
    }
}
