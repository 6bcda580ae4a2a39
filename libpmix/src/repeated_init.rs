//! A further `PMIx_server_init` or `PMIx_tool_init` of a process: it raises a count, and changes nothing else.

use modex::keys;
use modex::types::{Info, InfoFlags, Status, Value};

use super::guard::Failure;

/// Refuses a required directive that the first initialization did not have. A flag that is false without a word may be
/// required to be false.
///
/// # Errors
/// `ERR_NOT_SUPPORTED`. A line of the log names the directive.
pub(super) fn refuse_new(earlier: &[Info], infos: impl IntoIterator<Item = Info>) -> Result<(), Failure> {
    let is_known =
        |info: &Info| earlier.iter().any(|earlier| earlier.key == info.key && is_same(&earlier.value, &info.value));
    let is_default = |info: &Info| {
        let is_unsaid = !earlier.iter().any(|earlier| earlier.key == info.key);
        is_unsaid && info.value.as_bool() == Some(false) && FALSE_UNSAID.contains(&info.key.as_str())
    };
    let mut required = infos.into_iter().filter(|info| info.flags().contains(InfoFlags::REQUIRED));
    match required.find(|info| !is_known(info) && !is_default(info)) {
        None => Ok(()),
        Some(info) => {
            tracing::error!(
                key = info.key.as_str(),
                "the process is initialized already, and a further initialization can't honour this required directive; \
                 give it to the first one"
            );
            Err(Failure(Status::ERR_NOT_SUPPORTED))
        }
    }
}

/// Flags that are false if no directive says otherwise. The others depend on roles, parameters or the environment.
const FALSE_UNSAID: [&str; 14] = [
    keys::TOOL_DO_NOT_CONNECT.name(),
    keys::TOOL_CONNECT_OPTIONAL.name(),
    keys::LAUNCHER.name(),
    keys::CONNECT_TO_SYSTEM.name(),
    keys::CONNECT_SYSTEM_FIRST.name(),
    keys::CONNECT_TO_SCHEDULER.name(),
    keys::CONNECT_TO_SYS_CONTROLLER.name(),
    keys::SERVER_ALLOW_FOREIGN_TOOLS.name(),
    keys::SERVER_SESSION_SUPPORT.name(),
    keys::SERVER_SYSTEM_SUPPORT.name(),
    keys::SERVER_SCHEDULER.name(),
    keys::SERVER_SYS_CONTROLLER.name(),
    keys::SERVER_GATEWAY.name(),
    keys::SERVER_REMOTE_CONNECTIONS.name(),
];

/// Whether two values of a directive are the same one, perhaps of different types.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::ProcNamespace(namespace) => Some(namespace.as_str().to_owned()),
        value => value.as_str().map(str::to_owned),
    };
    one == other
        || (one.as_u32().is_some() && one.as_u32() == other.as_u32())
        || (text(one).is_some() && text(one) == text(other))
}

#[cfg(test)]
mod tests {
    use modex::types::{Key, Rank};

    use super::*;

    #[test]
    fn a_required_directive_is_that_of_the_first_initialization() {
        let rank = |rank: u32, flags| Info { flags, ..Info::new(Key::from_static(keys::SERVER_RANK.name()), rank) };
        let required = InfoFlags::REQUIRED.bits();
        let refusal = |info: Info| refuse_new(&[rank(1, 0)], [info]).err().map(|failure| failure.0);
        assert_eq!(
            [rank(1, required), rank(2, 0), rank(2, required)].map(refusal),
            [None, None, Some(Status::ERR_NOT_SUPPORTED)]
        );
        let of_other_type = Value::ProcRank(Rank::Process(1));
        assert_eq!(refusal(Info { value: of_other_type, ..rank(1, required) }), None);
    }

    /// Regression: a role that the server does not have was refused, though it was required not to have it.
    #[test]
    fn a_flag_that_is_false_unsaid_may_be_required_to_be_false() {
        let flag = |name: &'static str, is_set: bool| Info {
            flags: InfoFlags::REQUIRED.bits(),
            ..Info::new(Key::from_static(name), is_set)
        };
        let (gateway, output) = (keys::SERVER_GATEWAY.name(), keys::IOF_LOCAL_OUTPUT.name());
        let refusal = |earlier: &[Info], info| refuse_new(earlier, [info]).err().map(|failure| failure.0);
        let refused = Some(Status::ERR_NOT_SUPPORTED);
        assert_eq!(
            [(gateway, false), (gateway, true), (output, false)].map(|(name, is_set)| refusal(&[], flag(name, is_set))),
            [None, refused, refused]
        );
        assert_eq!(refusal(&[flag(gateway, true)], flag(gateway, false)), refused);
    }
}
