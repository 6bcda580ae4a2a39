//! Lists of ranks as text: the form in which hosts list the processes of a node (`PMIX_LOCAL_PEERS`).

use super::Rank;

/// The ranks in a list of ranks and runs, separated by commas: `0-3,5` are 0, 1, 2, 3 and 5. Other parts are skipped.
/// So are ranks after the first [`RANKS_MAX`]: the list is foreign data, and a run of a few bytes names any number of
/// processes.
///
/// Source: PMIx Standard, "Reserved Keys" (`PMIX_LOCAL_PEERS`: a list with commas); some hosts write runs.
pub fn ranks_in(list: &str) -> impl Iterator<Item = u32> + Clone + '_ {
    let rank = |text: &str| text.trim().parse::<u32>().ok().filter(|rank| *rank <= Rank::PROCESS_MAX);
    let run = move |part: &str| match part.split_once('-') {
        None => rank(part).map(|rank| rank..=rank),
        Some((first, last)) => Some(rank(first)?..=rank(last)?),
    };
    list.split(',').filter_map(run).flatten().take(RANKS_MAX)
}

/// Limit of ranks in one list: more processes than a node has.
pub const RANKS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(list: &str) -> Vec<u32> {
        ranks_in(list).collect()
    }

    #[test]
    fn runs_stand_for_all_of_their_ranks() {
        for (list, expected) in [
            ("", &[][..]),
            ("7", &[7]),
            ("0-3,5", &[0, 1, 2, 3, 5]),
            (" 9 , 1 - 2 ", &[9, 1, 2]),
            ("4-4", &[4]),
            ("3-1,0", &[0]),
            ("x,-1,1-,,2-x,+,6", &[6]),
            ("4294967295,4294967244-4294967294,8", &[8]),
        ] {
            assert_eq!(ranks(list), expected, "{list:?}");
        }
    }

    #[test]
    fn a_run_without_end_is_bounded() {
        let last = Rank::PROCESS_MAX;
        assert_eq!(ranks(&format!("0-{last}")).len(), RANKS_MAX);
        assert_eq!(ranks(&format!("5,0-{last},0-{last}")).last(), Some(&u32::try_from(RANKS_MAX - 2).unwrap()));
        assert!(ranks("0-4294967295").is_empty(), "no process has that rank");
    }
}
