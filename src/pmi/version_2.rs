//! PMI-2: fields of a message to commands, and the head of an answer.
//!
//! A message is `cmd=NAME;FIELD=VALUE;...`. A semicolon of a value is written twice.

use super::command::{Command, CommandError};
use super::spawn::{Program, Spawn, is_numbered};

/// The fields of a message, in their order.
pub(super) struct MessageFields {
    name: String,
    pairs: Vec<(String, String)>,
}

impl MessageFields {
    pub(super) fn read(message: &str) -> Result<Self, CommandError> {
        let mut pairs = Vec::new();
        let mut rest = message;
        while let Some((field, behind)) = rest.split_once('=') {
            let (value, next) = take_value(behind);
            pairs.push((field.to_owned(), value));
            rest = next;
        }
        let mut pairs = pairs.into_iter();
        match pairs.next() {
            Some((first, name)) if first == "cmd" => Ok(Self { name, pairs: pairs.collect() }),
            _ => Err(CommandError::NoCommand),
        }
    }

    fn get(&self, field: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == field).map(|(_, value)| value.as_str())
    }

    fn text(&self, command: &'static str, field: &'static str) -> Result<String, CommandError> {
        self.get(field).map(str::to_owned).ok_or(CommandError::Lacks { command, field })
    }
}

/// A value up to its semicolon, and the text behind that.
fn take_value(text: &str) -> (String, &str) {
    let (mut value, mut rest) = (String::new(), text);
    while let Some((part, behind)) = rest.split_once(';') {
        value.push_str(part);
        match behind.strip_prefix(';') {
            Some(next) => {
                value.push(';');
                rest = next;
            }
            None => return (value, behind),
        }
    }
    value.push_str(rest);
    (value, "")
}

/// The begin of an answer: the command's name, and the thread that waits for the answer.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplyHead {
    name: String,
    thread: Option<String>,
}

impl ReplyHead {
    pub(super) fn of(fields: &MessageFields) -> Self {
        Self { name: fields.name.clone(), thread: fields.get("thrid").map(str::to_owned) }
    }

    /// A message with these fields, its length in front of it.
    pub(super) fn message(&self, fields: &[(&str, &str)]) -> String {
        let mut message = format!("cmd={}-response;", escaped(&self.name));
        let thread = self.thread.as_deref().map(|thread| ("thrid", thread));
        for (name, value) in thread.iter().chain(fields) {
            message.push_str(&format!("{name}={};", escaped(value)));
        }
        format!("{:<6}{message}", message.len())
    }
}

/// A value with its semicolons written twice.
fn escaped(value: &str) -> String {
    value.replace(';', ";;")
}

pub(super) fn parse(fields: &MessageFields) -> Result<Command, CommandError> {
    Ok(match fields.name.as_str() {
        "fullinit" => Command::FullInit,
        "job-getid" => Command::GetMyKvsname,
        "kvs-put" => {
            let [key, value] = ["key", "value"].map(|field| fields.text("kvs-put", field));
            Command::Put { kvsname: None, key: key?, value: value? }
        }
        "kvs-get" => {
            let kvsname = fields.get("jobid").filter(|name| !name.is_empty()).map(str::to_owned);
            Command::Get { kvsname, key: fields.text("kvs-get", "key")? }
        }
        "kvs-fence" => Command::BarrierIn,
        "info-getjobattr" => Command::GetJobAttribute { key: fields.text("info-getjobattr", "key")? },
        "info-putnodeattr" => {
            let [key, value] = ["key", "value"].map(|field| fields.text("info-putnodeattr", field));
            Command::PutNodeAttribute { key: key?, value: value? }
        }
        "info-getnodeattr" => {
            let waits = fields.get("wait").is_some_and(|wait| wait.eq_ignore_ascii_case("true"));
            Command::GetNodeAttribute { key: fields.text("info-getnodeattr", "key")?, waits }
        }
        "name-publish" => {
            let [service, port] = ["name", "port"].map(|field| fields.text("name-publish", field));
            Command::PublishName { service: service?, port: port? }
        }
        "name-lookup" => Command::LookupName { service: fields.text("name-lookup", "name")? },
        "name-unpublish" => Command::UnpublishName { service: fields.text("name-unpublish", "name")? },
        "spawn" => Command::Spawn(spawn(fields)?),
        "abort" => {
            // A job that is to end ends, whatever the message lacks. MPICH and Slurm name the text differently.
            let exit_code = fields.get("exitcode").and_then(|code| code.parse().ok()).unwrap_or(1);
            let message = fields.get("message").or_else(|| fields.get("msg"));
            Command::Abort { exit_code, message: message.unwrap_or_default().to_owned() }
        }
        "finalize" => Command::Finalize,
        name => Command::unknown(name)?,
    })
}

/// The programs of a spawn. The fields of each follow its name.
fn spawn(fields: &MessageFields) -> Result<Spawn, CommandError> {
    let mut spawn = Spawn::default();
    let mut key = None;
    for (name, value) in &fields.pairs {
        spawn.memory_bytes += name.len() + value.len() + size_of::<Program>();
        match (name.as_str(), spawn.programs.last_mut()) {
            ("subcmd", _) => spawn.programs.push(Program { command: value.clone(), ..Program::default() }),
            (name, None) if is_numbered(name, "ppkey") => key = Some(value.clone()),
            (name, None) if is_numbered(name, "ppval") => {
                spawn.values.extend(key.take().map(|key| (key, value.clone())));
            }
            ("maxprocs", Some(program)) => {
                let no_number = |_| CommandError::NoNumber { command: "spawn", field: "maxprocs" };
                program.count = value.parse().map_err(no_number)?;
            }
            (name, Some(program)) if is_numbered(name, "argv") => program.arguments.push(value.clone()),
            (name, Some(_)) if is_numbered(name, "infokey") => key = Some(value.clone()),
            (name, Some(program)) if is_numbered(name, "infoval") => {
                program.info.extend(key.take().map(|key| (key, value.clone())));
            }
            // The numbers of programs, values, arguments and hints follow from the fields.
            _ => {}
        }
    }
    Ok(spawn)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(message: &str) -> Result<Command, CommandError> {
        parse(&MessageFields::read(message)?)
    }

    #[test]
    fn the_messages_of_mpich_and_slurm_are_understood() {
        for (message, expected) in [
            ("cmd=fullinit;pmirank=0;threaded=FALSE;", Command::FullInit),
            ("cmd=job-getid;", Command::GetMyKvsname),
            ("cmd=kvs-put;key=a;value=x=1;;y;", Command::Put { kvsname: None, key: "a".into(), value: "x=1;y".into() }),
            ("cmd=kvs-get;jobid=job;srcid=-1;key=a;", Command::Get { kvsname: Some("job".into()), key: "a".into() }),
            ("cmd=kvs-get;jobid=;srcid=1;key=a;", Command::Get { kvsname: None, key: "a".into() }),
            ("cmd=kvs-fence;", Command::BarrierIn),
            ("cmd=info-getjobattr;key=universeSize;", Command::GetJobAttribute { key: "universeSize".into() }),
            ("cmd=info-putnodeattr;key=a;value=;", Command::PutNodeAttribute { key: "a".into(), value: String::new() }),
            ("cmd=info-getnodeattr;key=a;wait=TRUE;", Command::GetNodeAttribute { key: "a".into(), waits: true }),
            ("cmd=info-getnodeattr;key=a;", Command::GetNodeAttribute { key: "a".into(), waits: false }),
            (
                "cmd=name-publish;name=my srv;port=p;;;",
                Command::PublishName { service: "my srv".into(), port: "p;".into() },
            ),
            ("cmd=name-lookup;name=s;", Command::LookupName { service: "s".into() }),
            ("cmd=name-unpublish;name=s;", Command::UnpublishName { service: "s".into() }),
            ("cmd=abort;isworld=TRUE;msg=no;", Command::Abort { exit_code: 1, message: "no".into() }),
            ("cmd=abort;exitcode=7;message=no;", Command::Abort { exit_code: 7, message: "no".into() }),
            ("cmd=finalize;", Command::Finalize),
            ("cmd=ring;count=1;", Command::Unknown { name: "ring".into() }),
        ] {
            assert_eq!(one(message), Ok(expected), "{message}");
        }
    }

    #[test]
    fn a_spawn_has_values_and_programs() {
        let message = "cmd=spawn;ncmds=2;preputcount=1;ppkey0=PORT;ppval0=p;;q;subcmd=a;maxprocs=2;argc=2;argv0=x;argv1=;\
                       infokeycount=1;infokey0=wdir;infoval0=/tmp;subcmd=b;maxprocs=1;argc=0;";
        let Ok(Command::Spawn(spawn)) = one(message) else { panic!() };
        assert_eq!(spawn.values, [("PORT".to_owned(), "p;q".to_owned())]);
        let first = Program {
            command: "a".into(),
            arguments: vec!["x".into(), String::new()],
            count: 2,
            info: vec![("wdir".into(), "/tmp".into())],
        };
        assert_eq!(spawn.programs, [first, Program { command: "b".into(), count: 1, ..Program::default() }]);
        assert!(spawn.memory_bytes > message.len(), "{}", spawn.memory_bytes);
        let no_number = CommandError::NoNumber { command: "spawn", field: "maxprocs" };
        assert_eq!(one("cmd=spawn;subcmd=a;maxprocs=many;"), Err(no_number));
    }

    #[test]
    fn a_message_that_is_no_command_names_its_fault() {
        for (message, expected) in [
            ("", CommandError::NoCommand),
            ("key=a;", CommandError::NoCommand),
            ("cmd=Rm -rf;", CommandError::NoCommand),
            ("cmd=kvs-put;key=a;", CommandError::Lacks { command: "kvs-put", field: "value" }),
            ("cmd=kvs-get;", CommandError::Lacks { command: "kvs-get", field: "key" }),
        ] {
            assert_eq!(one(message), Err(expected), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn a_put_arrives_as_it_was_written(key in "[!-<>-~]{1,64}", value in "\\PC{0,100}") {
            let message = format!("cmd=kvs-put;key={};value={};", escaped(&key), escaped(&value));
            prop_assert_eq!(one(&message), Ok(Command::Put { kvsname: None, key, value }));
        }

        #[test]
        fn no_message_panics(message in "(cmd=|kvs-put|spawn|;|;;|=|subcmd=|maxprocs=|ppkey0=|\\PC){0,30}") {
            let _ = one(&message);
        }
    }
}
