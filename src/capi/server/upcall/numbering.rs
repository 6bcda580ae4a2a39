//! How servers number the processes of a fence.

use crate::proto::blob::{Contributor, FenceBlock};
use crate::types::{Kval, Namespace, ProcId, Rank};

/// The namespaces of a fence, in order, with the sizes that the numbers of later ones begin after.
pub(super) struct Numbering {
    namespaces: Vec<(Namespace, Option<u32>)>,
}

/// A process and what it contributes.
pub(super) type Block = (ProcId, Vec<Kval>);

impl Numbering {
    pub(super) const fn new(namespaces: Vec<(Namespace, Option<u32>)>) -> Self {
        Self { namespaces }
    }

    /// Blocks by number. `None` if a process belongs to no namespace of the fence, or behind one of unknown size.
    pub(super) fn number(&self, blocks: Vec<Block>) -> Option<Vec<(u32, Vec<Kval>)>> {
        blocks.into_iter().map(|(proc, entries)| Some((self.number_of(&proc)?, entries))).collect()
    }

    /// Blocks by process; those that are of none are left out.
    pub(super) fn name(&self, blocks: Vec<FenceBlock>) -> Vec<Block> {
        let named = blocks.into_iter().filter_map(|block| {
            let proc = match block.contributor {
                Contributor::Relative(number) => self.proc_of(number)?,
                Contributor::Process(proc) => proc,
            };
            Some((proc, block.entries))
        });
        named.collect()
    }

    fn number_of(&self, proc: &ProcId) -> Option<u32> {
        let mut first = 0_u32;
        for (namespace, size) in &self.namespaces {
            if *namespace == proc.namespace {
                return first.checked_add(proc.rank.process()?);
            }
            first = first.checked_add((*size)?)?;
        }
        None
    }

    fn proc_of(&self, number: u32) -> Option<ProcId> {
        let mut rest = number;
        let last = self.namespaces.len().checked_sub(1)?;
        for (index, (namespace, size)) in self.namespaces.iter().enumerate() {
            // Nothing comes behind the last, so its size is of no interest.
            if index == last || size.is_some_and(|size| rest < size) {
                return Some(ProcId { namespace: namespace.clone(), rank: Rank::Process(rest) });
            }
            rest = rest.checked_sub((*size)?)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str) -> Namespace {
        Namespace::new(name).unwrap()
    }

    fn block(contributor: Contributor) -> FenceBlock {
        FenceBlock { contributor, entries: Vec::new() }
    }

    #[test]
    fn numbers_go_on_where_the_namespace_before_ends() {
        let numbering = Numbering::new(vec![(namespace("a"), Some(4)), (namespace("b"), None)]);
        let procs = [ProcId::new(namespace("a"), 3), ProcId::new(namespace("b"), 0), ProcId::new(namespace("b"), 9)];
        let blocks = procs.iter().cloned().map(|proc| (proc, Vec::new())).collect();
        let numbers: Vec<u32> = numbering.number(blocks).unwrap().into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [3, 4, 13]);
        let named = numbering.name(numbers.into_iter().map(|number| block(Contributor::Relative(number))).collect());
        assert_eq!(named.into_iter().map(|(proc, _)| proc).collect::<Vec<_>>(), procs);
    }

    #[test]
    fn what_cannot_be_numbered_is_refused_and_what_has_a_name_keeps_it() {
        let numbering = Numbering::new(vec![(namespace("a"), None), (namespace("b"), None)]);
        assert!(numbering.number(vec![(ProcId::new(namespace("b"), 0), Vec::new())]).is_none());
        assert!(numbering.number(vec![(ProcId::new(namespace("c"), 0), Vec::new())]).is_none());
        assert!(numbering.name(vec![block(Contributor::Relative(7))]).is_empty());
        let proc = ProcId::new(namespace("b"), 2);
        assert_eq!(numbering.name(vec![block(Contributor::Process(proc.clone()))]), [(proc, Vec::new())]);
    }
}
