//! Process maps by rule: ranks dealt to the nodes in turns.

use super::ranks::{RankMap, RankRun, push_runs};

/// The ranks below an end, dealt to nodes in turns, a block at a time.
///
/// A map in even blocks is one turn; a cyclic map deals blocks of one rank. No rank is dealt twice, so all lists
/// together are never longer than the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DealtRanks {
    block: u32,
    node_count: u32,
    end: u32,
}

impl DealtRanks {
    /// Deals the ranks below `end` to the nodes; `None` if the block or the number of nodes is zero, or if the ranks
    /// exceed [`DEALT_RANKS_MAX`].
    #[must_use]
    pub const fn new(block: u32, node_count: u32, end: u32) -> Option<Self> {
        if block == 0 || node_count == 0 || end > DEALT_RANKS_MAX {
            return None;
        }
        Some(Self { block, node_count, end })
    }

    /// The rule of a map of several nodes, if it has one.
    #[must_use]
    pub fn of(map: &RankMap) -> Option<Self> {
        let node_count = u32::try_from(map.node_count()).ok().filter(|count| *count > 1)?;
        let dealt = Self::new(map.runs_of(0).first()?.count(), node_count, map.rank_count())?;
        let mut nodes = (0..node_count).zip(0..map.node_count());
        nodes.all(|(node, index)| map.runs_of(index).iter().copied().eq(dealt.runs_of(node))).then_some(dealt)
    }

    /// Number of ranks that a node gets at a time; at least one.
    #[must_use]
    pub const fn block(self) -> u32 {
        self.block
    }

    /// Number of nodes; at least one.
    #[must_use]
    pub const fn node_count(self) -> u32 {
        self.node_count
    }

    /// The first rank that is not dealt.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.end
    }

    /// Whether the node at index `node` has a rank.
    #[must_use]
    pub fn has_ranks(self, node: u32) -> bool {
        self.runs_of(node).next().is_some()
    }

    /// The ranks of the node at index `node` with a comma between them, as [`RankMap::text_of`] writes them; `None`
    /// without ranks.
    #[must_use]
    pub fn text_of(self, node: u32) -> Option<String> {
        let mut bytes = Vec::new();
        push_runs(self.runs_of(node), &mut bytes);
        // Digits and commas are UTF-8.
        String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    }

    /// All lists with a semicolon between them: a process map in the form of hosts.
    #[must_use]
    pub fn map_text(self) -> String {
        let mut bytes = Vec::new();
        for node in 0..self.node_count {
            self.push_field(node, &mut bytes);
        }
        // Digits, commas and semicolons are UTF-8.
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Whether [`Self::map_text`] equals this text. Takes the memory of the longest list of a node, and time linear in
    /// the text.
    #[must_use]
    pub fn is_map_text(self, text: &[u8]) -> bool {
        // Each rank has at least one digit, so a shorter text differs.
        if usize::try_from(self.end).map_or(true, |end| text.len() < end) {
            return false;
        }
        let (mut rest, mut field) = (text, Vec::new());
        for node in 0..self.node_count {
            field.clear();
            self.push_field(node, &mut field);
            // Every field except the first has a semicolon, so the text ends first if the rule has too many nodes.
            match rest.strip_prefix(field.as_slice()) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// Appends the list of the node at index `node`, with a semicolon in front.
    fn push_field(self, node: u32, bytes: &mut Vec<u8>) {
        if node > 0 {
            bytes.push(b';');
        }
        push_runs(self.runs_of(node), bytes);
    }

    /// The blocks of the node at index `node`; none if there is no such node.
    fn runs_of(self, node: u32) -> impl Iterator<Item = RankRun> {
        let [node, block, end] = [node, self.block, self.end].map(u64::from);
        let turn = usize::try_from(block * u64::from(self.node_count)).unwrap_or(usize::MAX);
        let node_end = if node < u64::from(self.node_count) { end } else { 0 };
        (node * block..node_end).step_by(turn).map(move |first| {
            let last = (first + block).min(end) - 1;
            // Both are below the end.
            RankRun { first: first.try_into().unwrap_or(u32::MAX), last: last.try_into().unwrap_or(u32::MAX) }
        })
    }
}

/// Limit of ranks dealt by a rule: a list is made at each request, and the rule may be damaged.
pub const DEALT_RANKS_MAX: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::limits::MapLimits;
    use super::*;

    fn map(nodes: Vec<Vec<u32>>) -> RankMap {
        RankMap::from_ranks(nodes, &MapLimits::default()).unwrap()
    }

    fn rule(nodes: Vec<Vec<u32>>) -> Option<(u32, u32, u32)> {
        DealtRanks::of(&map(nodes)).map(|dealt| (dealt.block(), dealt.node_count(), dealt.end()))
    }

    #[test]
    fn even_blocks_and_turns_are_rules_and_nothing_else_is() {
        assert_eq!(rule(vec![vec![0, 1], vec![2, 3]]), Some((2, 2, 4)));
        assert_eq!(rule(vec![vec![0, 1], vec![2, 3], vec![4]]), Some((2, 3, 5)), "the last node is not full");
        assert_eq!(rule(vec![vec![0, 1], vec![2], vec![]]), Some((2, 3, 3)), "nor need it have any");
        assert_eq!(rule(vec![vec![0, 3, 6], vec![1, 4], vec![2, 5]]), Some((1, 3, 7)), "cyclic, with a remainder");
        assert_eq!(rule(vec![vec![0, 1, 4, 5], vec![2, 3, 6]]), Some((2, 2, 7)), "pairs in turns");
        for irregular in [
            vec![vec![0, 1, 2]],
            vec![vec![0], vec![1, 2]],
            vec![vec![1, 0], vec![2, 3]],
            vec![vec![2, 3], vec![0, 1]],
            vec![vec![], vec![0]],
            vec![vec![0, 1], vec![], vec![2]],
            vec![vec![0], vec![2]],
            vec![vec![0, 2], vec![1, 4]],
        ] {
            assert_eq!(rule(irregular.clone()), None, "{irregular:?}");
        }
    }

    #[test]
    fn numbers_that_make_no_rule_are_refused_and_others_end() {
        assert_eq!(DealtRanks::new(0, 1, 1), None);
        assert_eq!(DealtRanks::new(1, 0, 1), None);
        assert_eq!(DealtRanks::new(1, 1, DEALT_RANKS_MAX + 1), None);
        let widest = DealtRanks::new(u32::MAX, u32::MAX, 5).unwrap();
        assert_eq!(widest.text_of(0).as_deref(), Some("0,1,2,3,4"));
        assert_eq!([1, u32::MAX - 1, u32::MAX].map(|node| widest.text_of(node)), [None, None, None]);
        assert_eq!([true, false], [0, 1].map(|node| widest.has_ranks(node)));
        assert_eq!(DealtRanks::new(1, 2, 4).unwrap().text_of(2), None, "there is no such node");
    }

    #[test]
    fn another_text_is_not_that_of_the_rule() {
        let dealt = DealtRanks::new(2, 2, 6).unwrap();
        assert_eq!(dealt.map_text(), "0,1,4,5;2,3");
        for other in ["", "0,1,4,5", "0,1,4,5;", "0,1,4,5;2,3;", "0,1,4,5;2,30", "0-1,4,5;2,3", "0,1,4,5 ;2,3"] {
            assert!(!dealt.is_map_text(other.as_bytes()), "{other}");
        }
        let widest = DealtRanks::new(1, u32::MAX, 3).unwrap();
        assert!(!widest.is_map_text(b"0;1;2;;;;"), "it ends with the text");
    }

    /// Maps by rule, and arbitrary ones: node by node.
    fn any_map() -> impl Strategy<Value = Vec<Vec<u32>>> {
        let dealt = (1_u32..5, 1_u32..6, 1_u32..40).prop_map(|(block, nodes, end)| {
            let ranks = |node| (0..end).filter(|rank| rank / block % nodes == node).collect();
            (0..nodes).map(ranks).collect()
        });
        let any = prop::collection::vec(prop::collection::vec(0_u32..1000, 0..5), 1..5);
        prop_oneof![dealt, any]
    }

    proptest! {
        #[test]
        fn a_rule_writes_the_lists_of_its_map(nodes in any_map()) {
            let map = map(nodes);
            let Some(dealt) = DealtRanks::of(&map) else { return Ok(()) };
            for node in 0..map.node_count() {
                let mut text = String::new();
                map.text_of(node, &mut text);
                prop_assert_eq!(dealt.text_of(node.try_into().unwrap()).unwrap_or_default(), text);
            }
            let fields = |node| dealt.text_of(node).unwrap_or_default();
            let text = (0..dealt.node_count()).map(fields).collect::<Vec<_>>().join(";");
            prop_assert!(dealt.is_map_text(text.as_bytes()) && dealt.map_text() == text, "{}", text);
        }

        #[test]
        fn ranks_dealt_to_nodes_in_blocks_have_a_rule(block in 1_u32..9, node_count in 2_u32..9, end in 1_u32..99) {
            let ranks = |node| (0..end).filter(|rank| rank / block % node_count == node).collect();
            let dealt = DealtRanks::of(&map((0..node_count).map(ranks).collect())).unwrap();
            prop_assert_eq!((dealt.block(), dealt.node_count(), dealt.end()), (block.min(end), node_count, end));
        }
    }
}
