//! PMI-1: lines to commands.
//!
//! A line is `cmd=NAME FIELD=VALUE ...`. A value is a word, but for names and addresses of services and messages.

use super::command::{Command, CommandError};

pub(super) fn parse(line: &str) -> Result<Command, CommandError> {
    let rest = line.strip_prefix("cmd=").ok_or(CommandError::NoCommand)?;
    let name = rest.split(' ').next().unwrap_or_default();
    let fields = |command| Fields { command, text: rest.get(name.len()..).unwrap_or_default() };
    Ok(match name {
        "init" => Command::Init { version: fields("init").number("pmi_version")? },
        "get_maxes" => Command::GetMaxes,
        "get_appnum" => Command::GetAppnum,
        "get_my_kvsname" => Command::GetMyKvsname,
        "get_universe_size" => Command::GetUniverseSize,
        "put" => {
            let fields = fields("put");
            let [kvsname, key, value] = ["kvsname", "key", "value"].map(|field| fields.word(field));
            Command::Put { kvsname: Some(kvsname?), key: key?, value: value? }
        }
        "get" => {
            let fields = fields("get");
            Command::Get { kvsname: Some(fields.word("kvsname")?), key: fields.word("key")? }
        }
        "barrier_in" => Command::BarrierIn,
        "publish_name" => {
            let fields = fields("publish_name");
            Command::PublishName { service: fields.text("service", Some("port"))?, port: fields.text("port", None)? }
        }
        "lookup_name" => Command::LookupName { service: fields("lookup_name").text("service", None)? },
        "unpublish_name" => Command::UnpublishName { service: fields("unpublish_name").text("service", None)? },
        "abort" => {
            let fields = fields("abort");
            // A job that is to end ends, whatever the line lacks.
            let exit_code = fields.number("exitcode").unwrap_or(1);
            Command::Abort { exit_code, message: fields.text("message", None).unwrap_or_default() }
        }
        "finalize" => Command::Finalize,
        name => Command::unknown(name)?,
    })
}

/// The fields of a command, each with a blank in front of it.
#[derive(Clone, Copy)]
struct Fields<'a> {
    command: &'static str,
    text: &'a str,
}

impl Fields<'_> {
    /// The place behind `NAME=` of a field.
    fn behind(&self, field: &'static str) -> Result<&str, CommandError> {
        let mut places = self.text.match_indices(field).map(|(at, _)| at);
        let found = places.find_map(|at| {
            self.text.get(..at)?.ends_with(' ').then_some(())?;
            self.text.get(at..)?.strip_prefix(field)?.strip_prefix('=')
        });
        found.ok_or(CommandError::Lacks { command: self.command, field })
    }

    /// A value without blanks.
    fn word(&self, field: &'static str) -> Result<String, CommandError> {
        self.behind(field).map(|value| value.split(' ').next().unwrap_or_default().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, field: &'static str) -> Result<T, CommandError> {
        let value = self.word(field)?;
        value.parse().map_err(|_| CommandError::NoNumber { command: self.command, field })
    }

    /// A value that may have blanks: up to the last place of the next field, or to the end of the line.
    fn text(&self, field: &'static str, next: Option<&'static str>) -> Result<String, CommandError> {
        let value = self.behind(field)?;
        let end = next.and_then(|next| value.rfind(&format!(" {next}="))).unwrap_or(value.len());
        Ok(value.get(..end).unwrap_or_default().to_owned())
    }
}
