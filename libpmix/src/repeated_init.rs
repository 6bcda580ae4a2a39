//! A further `PMIx_server_init` or `PMIx_tool_init` of a process: it raises a count, and changes nothing else.

use modex::types::{Info, InfoFlags, Status};

use super::guard::Failure;

/// Refuses a required directive that the first initialization did not have.
///
/// # Errors
/// `ERR_NOT_SUPPORTED`. A line of the log names the directive.
pub(super) fn refuse_new(earlier: &[Info], infos: impl IntoIterator<Item = Info>) -> Result<(), Failure> {
    let is_known = |info: &Info| earlier.iter().any(|earlier| earlier.key == info.key && earlier.value == info.value);
    let mut required = infos.into_iter().filter(|info| info.flags().contains(InfoFlags::REQUIRED));
    match required.find(|info| !is_known(info)) {
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

#[cfg(test)]
mod tests {
    use modex::keys;
    use modex::types::Key;

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
    }
}
