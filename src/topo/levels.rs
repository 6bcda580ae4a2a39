//! The levels of a machine, and the numbers of objects, as hwloc assigns them.
//!
//! A level is all objects of one kind. Objects beside the hierarchy (memory, devices) have no level; they are numbered
//! in the order of a walk through the machine.

use std::collections::BTreeMap;

use super::format::{NO_DEPTH, ObjectRow};
use super::kind::Kind;

/// Objects of one class are one level: their kind and, for groups, the kind of group.
type Class = (u16, (u64, u64));

/// Sets the depths and logical indices of all objects.
pub(super) fn number(objects: &mut [ObjectRow], group_kinds: &BTreeMap<u32, (u64, u64)>) {
    let class = |index: u32, row: &ObjectRow| (row.kind, group_kinds.get(&index).copied().unwrap_or_default());
    let classes: Vec<Class> = (0_u32..).zip(&*objects).map(|(index, row)| class(index, row)).collect();
    let tree = Tree::of(objects, &classes);
    let mut numbers = vec![(NO_DEPTH, 0_u32); objects.len()];
    for (depth, level) in (0_u16..NO_DEPTH).zip(tree.levels()) {
        for (logical, index) in (0_u32..).zip(level) {
            if let Some(place) = numbers.get_mut(index) {
                *place = (depth, logical);
            }
        }
    }
    let mut counts = BTreeMap::<u16, u32>::new();
    for index in tree.walk() {
        let Some(row) = objects.get(index) else { continue };
        if is_level(row)
            && let Some((depth, _)) = numbers.get(index)
            && *depth != NO_DEPTH
        {
            continue;
        }
        let next = counts.entry(row.kind).or_default();
        if let Some(place) = numbers.get_mut(index) {
            *place = (NO_DEPTH, *next);
        }
        *next += 1;
    }
    for (row, (depth, logical)) in objects.iter_mut().zip(numbers) {
        (row.depth, row.logical) = (depth, logical);
    }
}

fn is_level(row: &ObjectRow) -> bool {
    !Kind::of_number(row.kind).is_beside()
}

struct Tree<'a> {
    objects: &'a [ObjectRow],
    classes: &'a [Class],
    /// The children of each object, in the text's order.
    children: Vec<Vec<usize>>,
}

impl<'a> Tree<'a> {
    /// Parents come before their children (`Rows::check`).
    fn of(objects: &'a [ObjectRow], classes: &'a [Class]) -> Self {
        let mut children = vec![Vec::new(); objects.len()];
        for (index, row) in objects.iter().enumerate() {
            if let Some(siblings) = children.get_mut(row.parent as usize) {
                siblings.push(index);
            }
        }
        Self { objects, classes, children }
    }

    fn children(&self, index: usize, of_level: bool) -> impl Iterator<Item = usize> {
        let children = self.children.get(index).into_iter().flatten().copied();
        children.filter(move |child| self.objects.get(*child).is_some_and(is_level) == of_level)
    }

    /// The objects of each level, from the machine to the processors.
    fn levels(&self) -> Vec<Vec<usize>> {
        let below = self.classes_below();
        let mut levels = vec![vec![0]];
        let mut front: Vec<usize> = self.children(0, true).collect();
        while let Some(first) = front.first() {
            // An object with objects of another's class below it comes first.
            let mut top = *first;
            for candidate in &front {
                let (Some(known), Some(wanted)) = (below.get(*candidate), self.classes.get(top)) else { continue };
                if self.classes.get(*candidate) != Some(wanted) && known.contains_key(wanted) {
                    top = *candidate;
                }
            }
            let class = self.classes.get(top);
            let (mut level, mut next) = (Vec::new(), Vec::new());
            for index in front {
                if self.classes.get(index) == class {
                    level.push(index);
                    next.extend(self.children(index, true));
                } else {
                    next.push(index);
                }
            }
            levels.push(level);
            front = next;
        }
        levels
    }

    /// The classes that each object has below it.
    fn classes_below(&self) -> Vec<BTreeMap<Class, ()>> {
        let mut below: Vec<BTreeMap<Class, ()>> = vec![BTreeMap::new(); self.objects.len()];
        for (index, row) in self.objects.iter().enumerate().rev().filter(|(_, row)| is_level(row)) {
            let mut known = below.get(index).cloned().unwrap_or_default();
            known.extend(self.classes.get(index).map(|class| (*class, ())));
            if let Some(parent) = below.get_mut(row.parent as usize) {
                parent.extend(known);
            }
        }
        below
    }

    /// All objects in hwloc's order: objects beside the hierarchy come behind all others below their parent.
    fn walk(&self) -> Vec<usize> {
        let (mut order, mut pending) = (Vec::new(), vec![0]);
        while let Some(index) = pending.pop() {
            order.push(index);
            let mut next: Vec<usize> = self.children(index, true).chain(self.children(index, false)).collect();
            next.reverse();
            pending.extend(next);
        }
        order
    }
}
