//! The distances of switches, from the structure of their links.

use super::description::Links;
use super::error::FabricError;
use super::groups::Groups;

/// Switches above one another in a tree. Slurm's and InfiniBand's have five at most.
pub const LEVELS_MAX: usize = 64;

/// Switches with devices in an irregular network. Their table then has 64 MiB.
pub const TABLE_SWITCHES_MAX: usize = 8192;

/// The links between two switches, at most. A device's own links make it a cost below [`super::UNREACHABLE`].
const HOPS_MAX: u64 = 65_000;

/// A distance in a table without a path.
const NO_PATH: u8 = u8::MAX;

/// The links between the switches of a plane, checked, in a form that answers quickly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Structure {
    /// Switches below switches.
    Tree(Tree),
    /// Groups with a link between each pair.
    Dragonfly(Dragonfly),
    /// Rings in each dimension.
    Torus(Torus),
    /// Anything else.
    Irregular(Irregular),
}

/// A tree, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    above: Vec<Option<u32>>,
    /// The number of switches above each one.
    levels: Vec<u8>,
    below: Groups,
}

/// Groups of switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dragonfly {
    /// The first switch of each group, and the number of all switches.
    starts: Vec<u32>,
}

/// Rings in each dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Torus {
    sizes: Vec<u32>,
}

/// Links in any order. The table has a row for each switch with devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Irregular {
    linked: Groups,
    /// The row of each switch with devices.
    rows: Vec<Option<u32>>,
    row_count: usize,
    table: Vec<u8>,
}

impl Structure {
    /// Checks links. `plane` and the names of its `switches` are for errors; `with_devices` are the switches that
    /// devices are at.
    pub(super) fn new(
        links: Links,
        plane: &str,
        switches: &[Box<str>],
        with_devices: &[u32],
    ) -> Result<Self, FabricError> {
        match links {
            Links::Tree(above) => Tree::new(above, plane, switches).map(Self::Tree),
            Links::Dragonfly(sizes) => Dragonfly::new(sizes, plane, switches.len()).map(Self::Dragonfly),
            Links::Torus(sizes) => Torus::new(sizes, plane, switches.len()).map(Self::Torus),
            Links::Irregular(links) => Irregular::new(&links, plane, switches.len(), with_devices).map(Self::Irregular),
        }
    }

    /// The number of links between two switches with devices; `None`: no path.
    pub(super) fn hops(&self, one: u32, other: u32) -> Option<u16> {
        match self {
            Self::Tree(tree) => tree.hops(one, other),
            Self::Dragonfly(dragonfly) => Some(dragonfly.hops(one, other)),
            Self::Torus(torus) => Some(torus.hops(one, other)),
            Self::Irregular(irregular) => irregular.hops(one, other),
        }
    }

    /// Adds the switches that are one link away. A switch with two links to another may stand there twice.
    fn neighbours(&self, switch: u32, found: &mut Vec<u32>) {
        match self {
            Self::Tree(tree) => {
                found.extend(tree.above.get(switch as usize).copied().flatten());
                found.extend_from_slice(tree.below.of(switch));
            }
            Self::Dragonfly(dragonfly) => dragonfly.neighbours(switch, found),
            Self::Torus(torus) => torus.neighbours(switch, found),
            Self::Irregular(irregular) => found.extend_from_slice(irregular.linked.of(switch)),
        }
    }

    /// A walk from a switch outwards, in a plane of `count` switches.
    pub(super) fn walk(&self, switch: u32, count: usize) -> Walk<impl Fn(u32, &mut Vec<u32>)> {
        Walk::new(switch, count, |switch, found: &mut Vec<u32>| self.neighbours(switch, found))
    }

    /// The place of a switch: the coordinates of a torus, group and place in a dragonfly, the number of any other.
    pub(super) fn coordinates(&self, switch: u32) -> Vec<u32> {
        match self {
            Self::Dragonfly(dragonfly) => {
                let group = dragonfly.group_of(switch);
                vec![group, switch - dragonfly.start(group)]
            }
            Self::Torus(torus) => torus.coordinates(switch),
            Self::Tree(_) | Self::Irregular(_) => vec![switch],
        }
    }

    /// The number of different values of each coordinate, in a plane of `count` switches.
    pub(super) fn shape(&self, count: usize) -> Vec<u32> {
        match self {
            Self::Dragonfly(dragonfly) => dragonfly.shape(),
            Self::Torus(torus) => torus.sizes.clone(),
            Self::Tree(_) | Self::Irregular(_) => vec![len32(count)],
        }
    }

    /// The group of a switch: that of a dragonfly; each switch of another structure is a group.
    pub(super) fn group_of(&self, switch: u32) -> u32 {
        if let Self::Dragonfly(dragonfly) = self { dragonfly.group_of(switch) } else { switch }
    }
}

impl Tree {
    fn new(above: Vec<Option<u32>>, plane: &str, switches: &[Box<str>]) -> Result<Self, FabricError> {
        let count = switches.len();
        if above.len() != count {
            return Err(FabricError::Sizes { plane: plane.to_owned(), sizes: vec![len32(above.len())], count });
        }
        if let Some(switch) = above.iter().flatten().find(|&&switch| switch as usize >= count) {
            return Err(FabricError::LinkToNoSwitch { plane: plane.to_owned(), switch: *switch, count });
        }
        let mut levels = Vec::with_capacity(count);
        for (start, name) in above.iter().zip(switches) {
            let mut level = 0_u8;
            let mut upper = *start;
            while let Some(switch) = upper {
                level += 1;
                if usize::from(level) > LEVELS_MAX {
                    return Err(FabricError::Loop {
                        plane: plane.to_owned(),
                        switch: name.to_string(),
                        max: LEVELS_MAX,
                    });
                }
                upper = above.get(switch as usize).copied().flatten();
            }
            levels.push(level);
        }
        let below = (0..).zip(&above).filter_map(|(switch, above)| above.map(|above| (above, switch)));
        let below = Groups::new(count, below);
        Ok(Self { above, levels, below })
    }

    fn hops(&self, mut one: u32, mut other: u32) -> Option<u16> {
        let mut hops = 0;
        while one != other {
            let level = |switch: u32| self.levels.get(switch as usize);
            let lower = if level(one) >= level(other) { &mut one } else { &mut other };
            *lower = self.above.get(*lower as usize).copied().flatten()?;
            hops += 1;
        }
        Some(hops)
    }
}

impl Dragonfly {
    fn new(sizes: Vec<u32>, plane: &str, count: usize) -> Result<Self, FabricError> {
        let total = sizes.iter().map(|&size| u64::from(size)).sum::<u64>();
        if total != count as u64 || sizes.contains(&0) {
            return Err(FabricError::Sizes { plane: plane.to_owned(), sizes, count });
        }
        let ends = sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        Ok(Self { starts: std::iter::once(0).chain(ends).collect() })
    }

    fn start(&self, group: u32) -> u32 {
        self.starts.get(group as usize).copied().unwrap_or_default()
    }

    fn group_of(&self, switch: u32) -> u32 {
        len32(self.starts.partition_point(|&start| start <= switch)).saturating_sub(1)
    }

    /// The number of groups, and the size of the largest one.
    fn shape(&self) -> Vec<u32> {
        let sizes = self.starts.array_windows().map(|[start, end]| end - start);
        vec![len32(self.starts.len()).saturating_sub(1), sizes.max().unwrap_or_default()]
    }

    /// The groups besides one.
    fn others(&self) -> u32 {
        len32(self.starts.len()).saturating_sub(2)
    }

    fn size(&self, group: u32) -> u32 {
        self.start(group + 1) - self.start(group)
    }

    /// The switch of a group from which the link to another group goes.
    fn gateway(&self, group: u32, to: u32) -> u32 {
        let turn = if to < group { to } else { to.saturating_sub(1) };
        self.start(group) + turn.checked_rem(self.size(group)).unwrap_or_default()
    }

    /// The other ends of a switch's links to other groups.
    fn far_ends(&self, switch: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let group = self.group_of(switch);
        let turns = (switch - self.start(group)..self.others()).step_by(self.size(group).max(1) as usize);
        turns.map(move |turn| if turn < group { turn } else { turn + 1 }).map(move |to| (to, self.gateway(to, group)))
    }

    /// A path of three links is local, global, local. Two global links through a third group may be shorter.
    fn hops(&self, one: u32, other: u32) -> u16 {
        let (from, to) = (self.group_of(one), self.group_of(other));
        if from == to {
            return u16::from(one != other);
        }
        let direct = 1 + u16::from(one != self.gateway(from, to)) + u16::from(other != self.gateway(to, from));
        let is_short = |(third, entry): (u32, u32)| {
            third != to && self.gateway(third, to) == entry && self.gateway(to, third) == other
        };
        if direct == 3 && self.far_ends(one).any(is_short) { 2 } else { direct }
    }

    fn neighbours(&self, switch: u32, found: &mut Vec<u32>) {
        let group = self.group_of(switch);
        found.extend((self.start(group)..self.start(group + 1)).filter(|&other| other != switch));
        found.extend(self.far_ends(switch).map(|(_, far)| far));
    }
}

impl Torus {
    fn new(sizes: Vec<u32>, plane: &str, count: usize) -> Result<Self, FabricError> {
        let product = sizes.iter().try_fold(1_u64, |product, &size| product.checked_mul(size.into()));
        if product != Some(count as u64) {
            return Err(FabricError::Sizes { plane: plane.to_owned(), sizes, count });
        }
        let hops = sizes.iter().map(|&size| u64::from(size / 2)).sum::<u64>();
        if hops > HOPS_MAX {
            return Err(FabricError::TooFar { plane: plane.to_owned(), hops, max: HOPS_MAX });
        }
        Ok(Self { sizes })
    }

    fn coordinates(&self, mut switch: u32) -> Vec<u32> {
        let mut coordinates: Vec<u32> = self
            .sizes
            .iter()
            .rev()
            .map(|&size| {
                let coordinate = switch.checked_rem(size).unwrap_or_default();
                switch = switch.checked_div(size).unwrap_or_default();
                coordinate
            })
            .collect();
        coordinates.reverse();
        coordinates
    }

    fn hops(&self, mut one: u32, mut other: u32) -> u16 {
        let mut hops = 0;
        for &size in self.sizes.iter().rev() {
            let ways = |of: u32| (of.checked_rem(size).unwrap_or_default(), of.checked_div(size).unwrap_or_default());
            let ((a, one_left), (b, other_left)) = (ways(one), ways(other));
            let way = a.abs_diff(b);
            hops += way.min(size - way);
            (one, other) = (one_left, other_left);
        }
        u16::try_from(hops).unwrap_or(u16::MAX)
    }

    fn neighbours(&self, switch: u32, found: &mut Vec<u32>) {
        let mut stride = 1;
        for &size in self.sizes.iter().rev() {
            let own = (switch / stride).checked_rem(size).unwrap_or_default();
            let base = switch - own * stride;
            let next = if own + 1 == size { 0 } else { own + 1 };
            let last = own.checked_sub(1).unwrap_or(size - 1);
            found.extend([next, last].map(|coordinate| base + coordinate * stride));
            stride *= size;
        }
    }
}

impl Irregular {
    fn new(links: &[(u32, u32)], plane: &str, count: usize, with_devices: &[u32]) -> Result<Self, FabricError> {
        let both = links.iter().flat_map(|&(one, other)| [(one, other), (other, one)]);
        if let Some((switch, _)) = both.clone().find(|&(switch, _)| switch as usize >= count) {
            return Err(FabricError::LinkToNoSwitch { plane: plane.to_owned(), switch, count });
        }
        let row_count = with_devices.len();
        if row_count > TABLE_SWITCHES_MAX {
            let what = "switches with devices and links without a known structure";
            return Err(FabricError::TooMany {
                plane: plane.to_owned(),
                what,
                count: row_count,
                max: TABLE_SWITCHES_MAX,
            });
        }
        let linked = Groups::new(count, both);
        let mut rows = vec![None; count];
        for (row, &switch) in (0..).zip(with_devices) {
            if let Some(slot) = rows.get_mut(switch as usize) {
                *slot = Some(row);
            }
        }
        let mut table = Vec::with_capacity(row_count * row_count);
        for &switch in with_devices {
            let start = table.len();
            table.resize(start + row_count, NO_PATH);
            let row = table.get_mut(start..).unwrap_or_default();
            let neighbours = |switch, found: &mut Vec<u32>| found.extend_from_slice(linked.of(switch));
            for (hops, layer) in (0_u64..).zip(Walk::new(switch, count, neighbours)) {
                for column in layer.into_iter().filter_map(|switch| rows.get(switch as usize).copied().flatten()) {
                    let near = u8::try_from(hops).ok().filter(|&hops| hops != NO_PATH);
                    let max = u64::from(NO_PATH) - 1;
                    let near = near.ok_or_else(|| FabricError::TooFar { plane: plane.to_owned(), hops, max })?;
                    if let Some(cell) = row.get_mut(column as usize) {
                        *cell = near;
                    }
                }
            }
        }
        Ok(Self { linked, rows, row_count, table })
    }

    fn hops(&self, one: u32, other: u32) -> Option<u16> {
        let row = |switch: u32| self.rows.get(switch as usize).copied().flatten().map(|row| row as usize);
        let hops = *self.table.get(row(one)? * self.row_count + row(other)?)?;
        (hops != NO_PATH).then(|| hops.into())
    }
}

/// The switches of each distance from one: at first itself, then its neighbours, and so on.
pub(super) struct Walk<N> {
    neighbours: N,
    is_seen: Vec<bool>,
    next: Vec<u32>,
}

impl<N: Fn(u32, &mut Vec<u32>)> Walk<N> {
    fn new(switch: u32, count: usize, neighbours: N) -> Self {
        let mut is_seen = vec![false; count];
        is_seen.iter_mut().skip(switch as usize).take(1).for_each(|seen| *seen = true);
        Self { neighbours, is_seen, next: vec![switch] }
    }
}

impl<N: Fn(u32, &mut Vec<u32>)> Iterator for Walk<N> {
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        if self.next.is_empty() {
            return None;
        }
        let mut found = Vec::new();
        for &switch in &self.next {
            (self.neighbours)(switch, &mut found);
        }
        let is_seen = &mut self.is_seen;
        found.retain(|&switch| is_seen.get_mut(switch as usize).is_some_and(|seen| !std::mem::replace(seen, true)));
        Some(std::mem::replace(&mut self.next, found))
    }
}

fn len32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
