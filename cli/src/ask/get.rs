//! `modex get`: the value that a process of a live job would get.

use std::time::Duration;

use clap::Args;
use modex::keys;
use modex::stderr_log::printable;
use modex::types::{Info, InfoFlags, Key, Namespace, ProcId, Rank, Value};
use serde_json::json;

use super::absence::Absence;
use super::answer::{self, FORMAT};
use super::arguments;
use super::target::Target;
use crate::inspect::to_json;
use crate::{Outcome, printing};

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct GetOptions {
    #[command(flatten)]
    target: Target,
    /// Namespace of the job
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: String,
    /// Process: its number, or * for the job as a whole
    #[arg(short, long, value_name = "RANK", default_value = "*", allow_hyphen_values = true)]
    rank: String,
    /// Key to get, or the name of its attribute; without it everything about the rank
    #[arg(value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    realm: Realm,
    #[command(flatten)]
    qualifiers: Qualifiers,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The place of the key; without any of these, the place of the standard.
#[derive(Args, Debug)]
#[group(multiple = false)]
struct Realm {
    /// Look among the values of the session (PMIX_SESSION_INFO): the job's own, unless --session-id names another
    #[arg(long)]
    session_info: bool,
    /// Look among the values of the job (PMIX_JOB_INFO)
    #[arg(long)]
    job_info: bool,
    /// Look among the values of an application (PMIX_APP_INFO)
    #[arg(long)]
    app_info: bool,
    /// Look among the values of a node (PMIX_NODE_INFO)
    #[arg(long)]
    node_info: bool,
}

#[derive(Args, Debug)]
struct Qualifiers {
    /// Session by number (PMIX_SESSION_ID)
    #[arg(long, value_name = "NUMBER")]
    session_id: Option<u32>,
    /// Application by number (PMIX_APPNUM)
    #[arg(long, value_name = "NUMBER")]
    appnum: Option<u32>,
    /// Node by number (PMIX_NODEID)
    #[arg(long, value_name = "NUMBER")]
    nodeid: Option<u32>,
    /// Node by name (PMIX_HOSTNAME)
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// Only values put with this scope: local, remote or global (PMIX_DATA_SCOPE)
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Use only the data that the server sent at the connection (PMIX_OPTIONAL)
    #[arg(long)]
    optional: bool,
    /// Fetch the value anew, although the server may have a copy (PMIX_GET_REFRESH_CACHE)
    #[arg(long)]
    refresh: bool,
    /// Give up after this many seconds (PMIX_TIMEOUT), for the connection and again for the value; implies --wait.
    /// 0 is no limit
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// Wait until the value is put, and let the server ask other nodes; the default is PMIX_IMMEDIATE, the server's own
    /// data
    #[arg(long)]
    wait: bool,
    /// Ask for a pointer to the value (PMIX_GET_POINTER_VALUES); the output is the same
    #[arg(long, conflicts_with = "static_values")]
    pointer_values: bool,
    /// Ask for a copy into the caller's storage (PMIX_GET_STATIC_VALUES); the output is the same
    #[arg(long)]
    static_values: bool,
    /// Any other qualifier, also one that the value was put with (TEXT, or TYPE:VALUE: number=uint32:5)
    #[arg(short = 'q', long = "qualifier", value_name = "KEY=VALUE")]
    others: Vec<String>,
}

const HELP: &str = help!(
    "\
Examples:
  modex get -n modex-4711 PMIX_JOB_SIZE
  modex get -n modex-4711 -r 3 pmix.hname
  modex get -n modex-4711 -r 0 --wait --timeout 10 endpoint
  modex get -n modex-4711 --node-info --hostname node1 PMIX_LOCAL_PEERS

JSON document (--json): format (1), namespace, rank, and either key, type and value, or, without KEY, entries[] of key,
type and value. Byte objects are strings of hexadecimal digits.

Exit status:
  0  There is a value
  1  There is none, or the server can't be asked
  2  The command line makes no sense"
);

pub(crate) fn run(options: &GetOptions) -> Outcome {
    let proc = ProcId { namespace: arguments::namespace(&options.namespace)?, rank: arguments::rank(&options.rank)? };
    let key = options.key.as_deref().map(arguments::key).transpose()?;
    let mut qualifiers = options.qualifiers()?;
    let time_max = options.qualifiers.time_max();
    let tool = options.target.connect(Some(&proc.namespace), time_max)?;
    let client = tool.client()?;
    if options.means_jobs_session() {
        qualifiers.extend(session_of(&client, &proc.namespace, time_max));
    }
    let directives = options.directives(&qualifiers)?;
    let refused = |error| {
        let absence = Absence::behind(&error, &client, &proc, &tool.proc().namespace, time_max);
        NoValue { error, absence, asked: options.asked(&qualifiers) }
    };
    let text = match &key {
        Some(key) => {
            let identity = identity(&proc, key);
            // The server knows whether there is such a process; the tool would answer with its own name.
            let asked = identity.as_ref().map_or(key.as_str(), |_| known_of(&proc));
            let value = client.get_value(&proc, asked, &directives).map_err(refused)?.into_value();
            let value = value.map_err(|_| "the value that the server sent can't be read")?;
            one(options, &proc, key, &identity.unwrap_or(value))
        }
        None => all(options, &proc, &client.get_all(&proc, &directives).map_err(refused)?),
    };
    // The end of the connection has the same effect.
    drop(client);
    let _ = tool.finalize();
    printing::print(&text)?;
    Ok(0)
}

/// The name of a process, for the answers that show it.
fn identity(proc: &ProcId, key: &Key) -> Option<Value> {
    match key.as_str() {
        name if name == keys::PROCID.name() => Some(Value::from(proc.clone())),
        name if name == keys::NSPACE.name() => Some(Value::from(proc.namespace.as_str())),
        _ => None,
    }
}

/// A key that each process has, or a key that each job has.
const fn known_of(proc: &ProcId) -> &'static str {
    match proc.rank {
        Rank::Wildcard => keys::JOB_SIZE.name(),
        _ => keys::RANK.name(),
    }
}

/// Why there is nothing to print. The value may exist under other qualifiers.
#[derive(Debug, thiserror::Error)]
#[error("{}{}", self.reason(), self.with())]
struct NoValue {
    error: modex::GetError,
    absence: Option<Absence>,
    asked: Vec<String>,
}

impl NoValue {
    fn reason(&self) -> String {
        self.absence.as_ref().map_or_else(|| self.error.to_string(), Absence::to_string)
    }

    fn with(&self) -> String {
        if self.asked.is_empty() { String::new() } else { format!(" (asked for with {})", self.asked.join(", ")) }
    }
}

/// The number of a job's session. Without it a Get means the requester's session, and a tool may be in another session.
fn session_of(client: &modex::Client, namespace: &Namespace, time_max: Option<Duration>) -> Option<Info> {
    let job = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
    let at_once = modex::GetOptions::new().immediate();
    let at_once = time_max.into_iter().fold(at_once, modex::GetOptions::timeout);
    let number = client.get_value(&job, keys::SESSION_ID.name(), &at_once).ok()?.into_value().ok()?.as_u32()?;
    Some(Info::new(Key::from_static(keys::SESSION_ID.name()), number))
}

fn one(options: &GetOptions, proc: &ProcId, key: &Key, value: &Value) -> String {
    if !options.json {
        return answer::text_of(value) + "\n";
    }
    let document = json!({
        "format": FORMAT,
        "namespace": proc.namespace.as_str(),
        "rank": to_json(&Value::ProcRank(proc.rank)),
        "key": key.as_str(),
        "type": value.data_type().name(),
        "value": to_json(value),
    });
    printing::escaped_json(&format!("{document:#}\n"))
}

fn all(options: &GetOptions, proc: &ProcId, entries: &[Info]) -> String {
    if !options.json {
        return answer::lines(entries);
    }
    let entries: Vec<_> = entries.iter().map(answer::json_of).collect();
    let document = json!({
        "format": FORMAT,
        "namespace": proc.namespace.as_str(),
        "rank": to_json(&Value::ProcRank(proc.rank)),
        "entries": entries,
    });
    printing::escaped_json(&format!("{document:#}\n"))
}

impl Qualifiers {
    /// The limit for each of the two waits: for the connection and for the value.
    fn time_max(&self) -> Option<Duration> {
        self.timeout.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()))
    }
}

impl GetOptions {
    /// Whether the user wants values of a session without naming the session.
    fn means_jobs_session(&self) -> bool {
        let is_number =
            |word: &String| arguments::qualifier(word).is_ok_and(|info| info.key.as_str() == keys::SESSION_ID.name());
        let says_which = self.qualifiers.session_id.is_some() || self.qualifiers.others.iter().any(is_number);
        self.realm.session_info && !says_which
    }

    /// The options that select the value.
    fn qualifiers(&self) -> Result<Vec<Info>, arguments::ArgumentError> {
        let Self { realm, qualifiers, .. } = self;
        let flags = [
            (keys::SESSION_INFO.name(), realm.session_info),
            (keys::JOB_INFO.name(), realm.job_info),
            (keys::APP_INFO.name(), realm.app_info),
            (keys::NODE_INFO.name(), realm.node_info),
            (keys::GET_POINTER_VALUES.name(), qualifiers.pointer_values),
            (keys::GET_STATIC_VALUES.name(), qualifiers.static_values),
        ];
        let numbers = [
            (keys::SESSION_ID.name(), qualifiers.session_id),
            (keys::APPNUM.name(), qualifiers.appnum),
            (keys::NODEID.name(), qualifiers.nodeid),
        ];
        let mut infos: Vec<Info> = Vec::new();
        infos.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| Info::new(Key::from_static(key), true)));
        infos.extend(
            numbers.iter().filter_map(|(key, number)| number.map(|number| Info::new(Key::from_static(key), number))),
        );
        infos.extend(
            qualifiers.hostname.as_deref().map(|name| Info::new(Key::from_static(keys::HOSTNAME.name()), name)),
        );
        for word in &qualifiers.others {
            let info = arguments::qualifier(word)?;
            // A qualifier outside the standard can only tell values of the key apart.
            let flags = if info.key.is_reserved() { 0 } else { InfoFlags::QUALIFIER.bits() };
            infos.push(Info { flags, ..info });
        }
        Ok(infos)
    }

    /// The qualifiers as a person would write them.
    fn asked(&self, qualifiers: &[Info]) -> Vec<String> {
        let named = |info: &Info| {
            let name = keys::by_name(info.key.as_str()).map_or(info.key.as_str(), |attribute| attribute.macro_name);
            match info.value {
                Value::Bool(true) => printable(name),
                ref value => format!("{}={}", printable(name), answer::text_of(value)),
            }
        };
        let scope = self.qualifiers.scope.iter().map(|scope| format!("PMIX_DATA_SCOPE={scope}"));
        let optional = self.qualifiers.optional.then(|| "PMIX_OPTIONAL".to_owned());
        qualifiers.iter().map(named).chain(scope).chain(optional).collect()
    }

    /// All options as directives of a Get.
    fn directives(&self, infos: &[Info]) -> Result<modex::GetOptions, arguments::ArgumentError> {
        let Self { qualifiers, .. } = self;
        let mut options = infos.iter().cloned().fold(modex::GetOptions::new(), modex::GetOptions::info);
        if let Some(scope) = &qualifiers.scope {
            options = options.scope(arguments::scope(scope)?);
        }
        options = qualifiers.time_max().into_iter().fold(options, modex::GetOptions::timeout);
        if qualifiers.optional {
            options = options.optional();
        } else if !qualifiers.wait && qualifiers.timeout.is_none() {
            options = options.immediate();
        }
        Ok(if qualifiers.refresh { options.refresh() } else { options })
    }
}
