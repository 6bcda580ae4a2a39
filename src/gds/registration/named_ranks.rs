//! Ranks in values of nodes and applications: they must be in the job.

use crate::keys;
use crate::types::{Info, Rank, Value};

use super::coerce::{ValueRule, text_of};
use super::collect::Facts;
use super::context::DescriptionLimits;
use super::entry_path::Anchor;
use super::error::{RegisterError, within};
use super::sessions::Settled;
use super::table::NodeArray;

/// Confirms that local peers and leaders in a description are ranks, and in the job if its size is known. Reads each
/// value once.
pub(super) fn check(
    facts: &Facts<'_>,
    sessions: &mut Settled<'_>,
    job_size: Option<u32>,
    limits: &DescriptionLimits,
) -> Result<(), RegisterError> {
    let check = |info: &Info| check_entry(info, job_size, limits).map_err(|error| error.about(info.key.as_str()));
    let check_array = |array: &NodeArray<'_>| {
        let checked = array.infos.iter().try_for_each(check);
        checked.map_err(|error| error.anchored(array.anchor()))
    };
    facts.job_nodes.iter().try_for_each(check_array)?;
    sessions.parts().try_for_each(|part| part.nodes.iter().try_for_each(check_array))?;
    facts.apps.values().try_for_each(|part| part.nodes.iter().try_for_each(check_array))?;
    for info in &facts.loose_node {
        check(info).map_err(|error| error.anchored(Anchor::job(info.key.as_str())))?;
    }
    let Some(job_size) = job_size else { return Ok(()) };
    let leaders = facts.apps.values().filter_map(|app| app.table.get(keys::APPLDR.name()));
    match leaders.filter_map(leader).find(|rank| *rank >= job_size) {
        Some(rank) => {
            let error = RegisterError::RankOutsideJob { rank, place: "application's leader", job_size };
            Err(error.anchored(Anchor::RankBeyond(keys::APPLDR.name().to_owned(), job_size)))
        }
        None => Ok(()),
    }
}

fn check_entry(info: &Info, job_size: Option<u32>, limits: &DescriptionLimits) -> Result<(), RegisterError> {
    const LOCAL_PEERS: &str = keys::LOCAL_PEERS.name();
    const LOCALLDR: &str = keys::LOCALLDR.name();
    let (named, place) = match info.key.as_str() {
        LOCAL_PEERS => (text_of(&info.value).map_or(Ok(None), |text| highest_in(&text))?, "list of local peers"),
        LOCALLDR => {
            let rule = ValueRule::of(LOCALLDR);
            (leader(&rule.value(rule.check(LOCALLDR, &info.value)?)), "node's leader")
        }
        _ => return Ok(()),
    };
    match (named, job_size) {
        (Some(rank), Some(job_size)) if rank >= job_size => {
            Err(RegisterError::RankOutsideJob { rank, place, job_size })
        }
        (Some(rank), None) => within("ranks", u64::from(rank) + 1, limits.ranks_max.into()),
        _ => Ok(()),
    }
}

/// A leader as a number.
pub(super) fn leader(value: &Value) -> Option<u32> {
    match value {
        Value::ProcRank(rank) => rank.process(),
        value => value.as_u32().filter(|rank| *rank <= Rank::PROCESS_MAX),
    }
}

/// The highest rank in a comma-separated list of ranks and runs such as `4-7`; a node may have none.
fn highest_in(list: &str) -> Result<Option<u32>, RegisterError> {
    if list.trim().is_empty() {
        return Ok(None);
    }
    let wrong = |part: &str| RegisterError::NoRankList { part: part.chars().take(PART_SHOWN_MAX).collect() };
    let highest = list.split(',').map(|part| {
        let rank = |text: &str| text.trim().parse::<u32>().ok().filter(|rank| *rank <= Rank::PROCESS_MAX);
        match part.split_once('-') {
            None => rank(part),
            Some((first, last)) => rank(last).filter(|last| rank(first).is_some_and(|first| first <= *last)),
        }
        .ok_or_else(|| wrong(part))
    });
    highest.reduce(|one, other| Ok(one?.max(other?))).transpose()
}

/// Characters shown of a text that is not a rank.
const PART_SHOWN_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_ranks_has_commas_and_runs() {
        for (list, highest) in [("", None), ("3", Some(3)), ("0,9,2", Some(9)), ("4-7,1", Some(7)), (" 1, 2 ", Some(2))]
        {
            assert_eq!(highest_in(list), Ok(highest), "{list:?}");
        }
        for (list, part) in
            [("x;;y", "x;;y"), ("0,,1", ""), ("1,2-", "2-"), ("3-1", "3-1"), ("-1", "-1"), ("0;1", "0;1")]
        {
            assert_eq!(highest_in(list), Err(RegisterError::NoRankList { part: part.to_owned() }), "{list:?}");
        }
    }
}
