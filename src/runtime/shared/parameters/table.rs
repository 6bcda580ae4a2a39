//! The parameters of OpenPMIx that have an effect here.

/// A parameter with an effect: its name, and what it sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name without `PMIX_MCA_`.
    pub name: &'static str,
    /// The setting.
    pub effect: ParameterEffect,
    /// The values that it takes.
    pub form: ParameterForm,
}

/// The values that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterForm {
    /// Any text, or one that its reader checks.
    Text,
    /// True or false.
    Flag,
    /// A number of seconds.
    Seconds,
    /// Ports, such as `5000-5010,6000`.
    Ports,
}

/// The effect of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterEffect {
    /// A setting, in words.
    Setting(&'static str),
    /// The level `debug` of an area of the log. The value is a number; 0 stands for no wish.
    LogArea(&'static str),
}

const fn setting(name: &'static str, words: &'static str) -> Parameter {
    Parameter { name, effect: ParameterEffect::Setting(words), form: ParameterForm::Text }
}

const fn log(name: &'static str, area: &'static str) -> Parameter {
    Parameter { name, effect: ParameterEffect::LogArea(area), form: ParameterForm::Text }
}

const fn flag(name: &'static str, words: &'static str) -> Parameter {
    Parameter { form: ParameterForm::Flag, ..setting(name, words) }
}

const fn ports(name: &'static str, words: &'static str) -> Parameter {
    Parameter { form: ParameterForm::Ports, ..setting(name, words) }
}

/// The parameter that names the files of parameters.
pub(super) const FILES: &str = "mca_base_param_files";

/// Patterns of variables that the user forwards to every job.
///
/// Source: RFC0029.
pub(in crate::runtime) const FORWARD_ENVARS: &str = "forward_envars";
/// Stands for all parameters with addresses of servers: NAME is any name.
pub const NAMED_SERVERS: &str = "modex_server_NAME";
/// The window in which lost connections give one event.
pub(in crate::runtime) const LOSS_WINDOW: &str = "pmix_event_caching_window";
/// Whether tagged output is wanted.
pub const TAG_OUTPUT: &str = "iof_tag_output";
/// Whether output with the time is wanted.
pub const TIMESTAMP_OUTPUT: &str = "iof_timestamp_output";
/// Whether output as XML is wanted.
pub const XML_OUTPUT: &str = "iof_xml_output";
/// Whether a server's listener does without IPv4.
pub const DISABLE_IPV4: &str = "ptl_base_disable_ipv4_family";
/// Whether a server's listener does without IPv6.
pub const DISABLE_IPV6: &str = "ptl_base_disable_ipv6_family";
/// Interfaces on which a server listens for other machines.
pub const IF_INCLUDE: &str = "ptl_base_if_include";
/// Interfaces that a server does not use.
pub const IF_EXCLUDE: &str = "ptl_base_if_exclude";
/// Ports of a server on IPv4.
pub const IPV4_PORTS: &str = "ptl_base_ipv4_ports";
/// Ports of a server on IPv6.
pub const IPV6_PORTS: &str = "ptl_base_ipv6_ports";
/// The place for the report of a server's address.
pub const REPORT_URI: &str = "ptl_base_report_uri";
/// Modules for the proof of identity.
pub const SECURITY_MODULES: &str = "psec";

/// Modules for fabrics.
pub(in crate::runtime) const PNET: &str = "pnet";
/// The ports that a gateway hands out to jobs.
pub(in crate::runtime) const PNET_TCP_STATIC_PORTS: &str = "pnet_tcp_static_ports";
/// The description of the test fabric.
pub(in crate::runtime) const PNET_TEST_NVERTS: &str = "pnet_test_nverts";
/// The planes of a test fabric whose nodes have names.
pub(in crate::runtime) const PNET_TEST_PLANES: &str = "pnet_test_planes";
/// The names of its nodes.
pub(in crate::runtime) const PNET_TEST_NODES: &str = "pnet_test_nodes";

const INCLUDED: &str = "server: variables of this programming model that jobs get, instead of the usual ones";
const EXCLUDED: &str = "server: exceptions from the variables of this programming model";

const INCLUDED_FABRIC: &str = "server: variables of this fabric's driver that jobs get, instead of the usual ones";
const EXCLUDED_FABRIC: &str = "server: exceptions from the variables of this fabric's driver";

/// Every parameter that has an effect, in the order of the names. The others are known to OpenPMIx alone.
pub const PARAMETERS: &[Parameter] = &[
    log("bfrops_base_verbose", "ptl"),
    setting(FORWARD_ENVARS, "server: variables of its environment that every job gets whose setup asks for variables"),
    log("gds_base_verbose", "gds"),
    flag(TAG_OUTPUT, "server, tool and modex run: output that they write has the name of its rank"),
    flag(TIMESTAMP_OUTPUT, "server, tool and modex run: output that they write has the time"),
    flag(XML_OUTPUT, "server, tool and modex run: output that they write is XML"),
    setting(
        FILES,
        "the files of parameters, in the order of precedence, with commas; none: no files (environment only)",
    ),
    setting(
        NAMED_SERVERS,
        "tool: the address of the server NAME, or file: and a path; --uri and PMIX_SERVER_URI take NAME",
    ),
    setting("pmdl_impi_exclude_envars", EXCLUDED),
    setting("pmdl_impi_include_envars", INCLUDED),
    setting("pmdl_mpich_exclude_envars", EXCLUDED),
    setting("pmdl_mpich_include_envars", INCLUDED),
    setting("pmdl_ompi_exclude_envars", EXCLUDED),
    setting("pmdl_ompi_include_envars", INCLUDED),
    setting("pmdl_oshmem_exclude_envars", EXCLUDED),
    setting("pmdl_oshmem_include_envars", INCLUDED),
    log("pmix_client_base_verbose", "ptl"),
    log("pmix_client_connect_verbose", "collective"),
    log("pmix_client_event_verbose", "event"),
    log("pmix_client_fence_verbose", "collective"),
    log("pmix_client_get_verbose", "get"),
    log("pmix_client_iof_verbose", "iof"),
    log("pmix_client_pub_verbose", "service"),
    log("pmix_client_spawn_verbose", "job"),
    Parameter {
        form: ParameterForm::Seconds,
        ..setting(
            LOSS_WINDOW,
            "server: seconds in which lost connections give one event; 0, the default: each gives one at once",
        )
    },
    log("pmix_server_base_verbose", "host"),
    log("pmix_server_connect_verbose", "collective"),
    log("pmix_server_event_verbose", "event"),
    log("pmix_server_fence_verbose", "collective"),
    log("pmix_server_get_verbose", "get"),
    log("pmix_server_iof_verbose", "iof"),
    log("pmix_server_pub_verbose", "service"),
    log("pmix_server_spawn_verbose", "job"),
    setting(PNET, "server: modules for fabrics: nvd and opa (variables of drivers), tcp (static ports) and test"),
    setting("pnet_nvd_exclude_envars", EXCLUDED_FABRIC),
    setting("pnet_nvd_include_envars", INCLUDED_FABRIC),
    setting("pnet_opa_exclude_envars", EXCLUDED_FABRIC),
    setting("pnet_opa_include_envars", INCLUDED_FABRIC),
    setting("pnet_tcp_exclude_envars", EXCLUDED_FABRIC),
    setting("pnet_tcp_include_envars", INCLUDED_FABRIC),
    setting(
        PNET_TCP_STATIC_PORTS,
        "scheduler's and gateway's server: ports for jobs that ask for some, such as tcp:10.0.0.0/8:32000-32100;udp:40000",
    ),
    setting(PNET_TEST_NODES, "scheduler's server: the names of the nodes of pnet_test_planes, with commas"),
    setting(PNET_TEST_NVERTS, "scheduler's server: its test fabric, such as nodes:5;plane:d:3"),
    setting(PNET_TEST_PLANES, "scheduler's server: the planes of its test fabric, such as plane:d:3:4,plane:s:2"),
    setting(SECURITY_MODULES, "server: munge in the list: clients of other libraries may prove themselves with munge"),
    log("psec_base_verbose", "ptl"),
    flag(DISABLE_IPV4, "server: clients of other libraries come over IPv6 alone (true or false)"),
    flag(DISABLE_IPV6, "server: clients of other libraries come over IPv4 alone (true or false)"),
    setting(IF_EXCLUDE, "server open to other machines: interfaces that it does not use, by name or subnet"),
    setting(IF_INCLUDE, "server open to other machines: interfaces that it may use, such as ib0,10.1.0.0/16"),
    ports(IPV4_PORTS, "server: its ports on IPv4, such as 5000-5010,6000"),
    ports(IPV6_PORTS, "server: its ports on IPv6"),
    setting(REPORT_URI, "server: the file for its address; - and +: standard output and standard error"),
    log("ptl_base_verbose", "ptl"),
];

/// The parameter of a name; `None` if it has no effect.
pub(in crate::runtime) fn parameter(name: &str) -> Option<&'static Parameter> {
    let name = if name.starts_with(super::servers::PREFIX) { NAMED_SERVERS } else { name };
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}
