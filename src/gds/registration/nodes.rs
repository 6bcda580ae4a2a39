//! The nodes of a job: maps the names and numbers in a description to node indexes.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::gds::job_record::Texts;
use crate::keys;
use crate::regex::NodeList;
use crate::types::{Info, Key, Value};

use super::coerce::ValueRule;
use super::columns::Columns;
use super::container::Container;
use super::context::{Context, DescriptionLimits};
use super::entry_path::{Anchor, EntryPath};
use super::error::{RegisterError, within};
use super::node_identity::NodeIdentity;
use super::table::{NodeArray, PartFacts};

/// All nodes: first those of the node map, in its order, then nodes known from arrays only.
#[derive(Debug)]
pub(super) struct Nodes<'m, 'a> {
    nodes: Vec<Node<'m>>,
    /// Number of nodes in the node map.
    mapped_count: u32,
    /// Number of nodes, from the first, whose default number is their position.
    implied_count: u32,
    map: Option<&'m NodeList>,
    nodes_max: u32,
    aliases_max: u32,
    by_hostname: FxHashMap<Cow<'m, str>, u32>,
    by_alias: FxHashMap<String, u32>,
    /// The node of each number; the last claim counts.
    by_id: FxHashMap<u32, u32>,
    /// Numbers that several nodes had at once.
    contested: FxHashMap<u32, Vec<Claim>>,
    claim_count: u64,
    pub(super) columns: Columns<'a>,
}

#[derive(Debug, Default)]
struct Node<'a> {
    /// Its name in the node map.
    map_name: Option<&'a str>,
    /// Other names, from node arrays.
    hostnames: Vec<String>,
    /// The number the host gave it.
    id: Option<u32>,
    /// Its other names, in the order of first mention.
    aliases: Vec<String>,
}

/// A node's claim to a number that another node had or has.
///
/// All claims to a number are kept, the newest last. A claim is void once its node has another number.
#[derive(Debug)]
struct Claim {
    index: u32,
    /// Number of earlier claims to contested numbers.
    order: u64,
    /// The place of the claim; `None` if it is not in this description.
    anchor: Option<Anchor>,
}

impl<'m, 'a> Nodes<'m, 'a> {
    pub(super) fn new(limits: &DescriptionLimits) -> Self {
        Self {
            nodes: Vec::new(),
            mapped_count: 0,
            implied_count: 0,
            map: None,
            nodes_max: limits.nodes_max,
            aliases_max: limits.aliases_max,
            by_hostname: FxHashMap::default(),
            by_alias: FxHashMap::default(),
            by_id: FxHashMap::default(),
            contested: FxHashMap::default(),
            claim_count: 0,
            columns: Columns::default(),
        }
    }

    /// Takes the nodes of the map. Must come first.
    pub(super) fn add_map(&mut self, map: &'m NodeList) -> Result<(), RegisterError> {
        self.by_hostname.reserve(map.len());
        self.nodes.reserve(map.len());
        for name in map.iter() {
            let index = self.add()?;
            if let Some(first) = self.by_hostname.insert(Cow::Borrowed(name), index) {
                return Err(RegisterError::NodeTwice { name: name.to_owned(), first, second: index });
            }
            self.node_mut(index, |node| node.map_name = Some(name));
        }
        self.mapped_count = self.count();
        self.implied_count = self.mapped_count;
        self.map = Some(map);
        Ok(())
    }

    /// Takes node arrays of the job; values are filed in order, so that the last one counts.
    pub(super) fn add_arrays(&mut self, arrays: &[NodeArray<'a>]) -> Result<(), RegisterError> {
        let mut columns = std::mem::take(&mut self.columns);
        let added = self.file(arrays, &mut columns);
        self.columns = columns;
        added
    }

    /// Takes node arrays of an application or a session: their nodes join the job's, their values stay with the part.
    pub(super) fn add_part(&mut self, part: &mut PartFacts<'a>) -> Result<(), RegisterError> {
        self.file(&part.nodes, &mut part.columns)
    }

    /// Places node arrays and files their values. Aliases of known nodes come first, because another array, such as
    /// that of a setup, may name the node so. Arrays without a name come last, so that a number alone means the node
    /// that was given this number under its name. Numbers and values count in the order of the arrays.
    fn file(&mut self, arrays: &[NodeArray<'a>], columns: &mut Columns<'a>) -> Result<(), RegisterError> {
        let identified =
            arrays.iter().zip(0_usize..).map(|(array, place)| Ok((NodeIdentity::of(array)?, place, array)));
        let mut identified = identified.collect::<Result<Vec<_>, RegisterError>>()?;
        for (NodeIdentity { hostname, aliases, .. }, _, array) in &identified {
            let known = hostname.as_ref().and_then(|name| self.by_hostname.get(name.as_str()).copied());
            if let Some(index) = known.filter(|_| !aliases.is_empty()) {
                let other_names = NodeIdentity { aliases: aliases.clone(), ..NodeIdentity::default() };
                self.register(index, other_names).map_err(|error| error.anchored(array.anchor()))?;
            }
        }
        identified.sort_by_key(|(identity, ..)| identity.hostname.is_none());
        let mut indexes = vec![0; arrays.len()];
        for (identity, place, array) in identified {
            let index = self.place(identity).map_err(|error| error.anchored(array.anchor()))?;
            if let Some(found) = indexes.get_mut(place) {
                *found = index;
            }
        }
        for (array, index) in arrays.iter().zip(indexes) {
            for info in array.infos.iter().filter(|info| Container::of(info.key.as_str()).is_none()) {
                let inserted = insert(columns, index, info);
                inserted.map_err(|error| error.anchored(array.anchor()))?;
            }
        }
        Ok(())
    }

    /// Takes loose node values, which describe the server's own node, and returns its index. Without loose values the
    /// result is `None` if the job does not use that node.
    pub(super) fn add_own(&mut self, context: &Context, loose: &[&'a Info]) -> Result<Option<u32>, RegisterError> {
        let added = self.add_loose(context, loose);
        added.map_err(|error| {
            let known = error.path().and_then(EntryPath::key).or_else(|| Some(loose.first()?.key.as_str()));
            match known.map(Anchor::job) {
                Some(anchor) => error.anchored(anchor),
                None => error,
            }
        })
    }

    fn add_loose(&mut self, context: &Context, loose: &[&'a Info]) -> Result<Option<u32>, RegisterError> {
        let mut given = NodeIdentity::of_infos(loose.iter().copied())?;
        given.anchor = Some(Anchor::job(keys::NODEID.name()));
        let by_given_name = given.hostname.as_ref().and_then(|name| self.index_of_name(name));
        let by_own_name = self.index_of_names(&context.hostname, &context.aliases);
        let found = by_given_name.or(by_own_name);
        if loose.is_empty() {
            return Ok(found);
        }
        // Clients over the socket know their node by the server's name for it.
        if by_own_name.is_none() && given.hostname.as_ref().is_some_and(|name| *name != context.hostname) {
            given.aliases.push(context.hostname.clone());
        }
        let index = match found {
            Some(index) => {
                self.register(index, given)?;
                index
            }
            None => {
                given.hostname.get_or_insert_with(|| context.hostname.clone());
                self.place(given)?
            }
        };
        for info in loose {
            insert(&mut self.columns, index, info)?;
        }
        let own = Key::from_static(keys::HOSTNAME.name());
        if self.node(index).is_some_and(|node| node.map_name.is_none()) {
            self.columns.column(&own).fill([(index, ValueRule::of(own.as_str()).owned_cell(text(&context.hostname)))]);
        }
        Ok(Some(index))
    }

    /// The index of the node with this identity; an unknown node is added.
    pub(super) fn place(&mut self, identity: NodeIdentity) -> Result<u32, RegisterError> {
        let by_name = identity.hostname.as_ref().and_then(|name| self.index_of_names(name, &identity.aliases));
        let by_id = || match &identity.hostname {
            Some(hostname) => self.index_of_other_name(hostname, identity.id?),
            None => self.index_of_id(identity.id?),
        };
        let index = match by_name.or_else(by_id) {
            Some(index) => index,
            None => self.add()?,
        };
        self.register(index, identity)?;
        Ok(index)
    }

    /// Appends a node of an earlier registration. The first `mapped_count` nodes were in its map. A number equal to the
    /// position may be derived, so it is not restored as a given number.
    pub(super) fn restore(&mut self, mut identity: NodeIdentity, mapped_count: u32) -> Result<(), RegisterError> {
        let index = self.add()?;
        if index < mapped_count {
            self.implied_count = self.count();
            identity.id = identity.id.filter(|id| *id != index);
        }
        self.register(index, identity)
    }

    /// Whether `count` more nodes are within the limit.
    pub(super) fn has_room_for(&self, count: u32) -> bool {
        self.nodes_max.saturating_sub(self.count()) >= count
    }

    /// From now on the default number of each node is its position, unless another node has that number.
    pub(super) fn imply_ids(&mut self) {
        self.implied_count = self.count();
    }

    /// The number that the host gave a node.
    pub(super) fn given_id(&self, index: u32) -> Option<u32> {
        self.node(index)?.id
    }

    /// Whether any node has this number from the host.
    pub(super) fn is_given(&self, id: u32) -> bool {
        self.by_id.contains_key(&id)
    }

    /// A node's name: its name in the map, else the first given name.
    pub(super) fn name(&self, index: u32) -> Option<&str> {
        self.node(index)?.name()
    }

    /// Whether the nodes come from a node map.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped_count > 0
    }

    /// The index of a node by its name or alias.
    pub(super) fn index_of_name(&self, name: &str) -> Option<u32> {
        self.by_hostname.get(name).or_else(|| self.by_alias.get(name)).copied()
    }

    /// The index of a node with this name, or with one of these aliases as its name.
    ///
    /// Two equal aliases prove nothing: every node may have the alias `localhost`.
    fn index_of_names(&self, hostname: &str, aliases: &[String]) -> Option<u32> {
        let by_alias = || aliases.iter().find_map(|alias| self.by_hostname.get(alias.as_str()).copied());
        self.index_of_name(hostname).or_else(by_alias)
    }

    /// Number of nodes.
    pub(super) fn count(&self) -> u32 {
        // Bounded by `nodes_max` on every addition.
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    /// The number of a node: the host's, else its index for nodes of the map, unless another node has that number.
    /// Complete after [`Self::settle_ids`].
    pub(super) fn id(&self, index: u32) -> Option<u32> {
        let given = self.node(index)?.id;
        let is_free = || index < self.implied_count && !self.by_id.contains_key(&index);
        given.or_else(|| is_free().then_some(index))
    }

    /// The host name of each node as clients will see it. Complete after [`Self::fill_identities`].
    pub(super) fn hostnames(&mut self) -> Vec<Option<&str>> {
        let count = self.count();
        self.columns.column(&Key::from_static(keys::HOSTNAME.name())).texts(count)
    }

    /// Files the names and numbers of all nodes as columns, except where the host gave a value.
    pub(super) fn fill_identities(&mut self) {
        let count = self.count();
        let ids: Vec<(u32, u64)> = (0..count).filter_map(|index| Some((index, u64::from(self.id(index)?)))).collect();
        self.columns.column(&Key::from_static(keys::NODEID.name())).fill_numbers(ids);

        let hostnames = self.columns.column(&Key::from_static(keys::HOSTNAME.name()));
        let given = hostnames.entries().iter().map(|(index, cell)| (*index, cell.as_str().map(str::to_owned)));
        let given: Vec<(u32, Option<String>)> = given.collect();
        let names = self.map.filter(|map| given.is_empty() && map.len() == self.nodes.len());
        // The names are all different, and their text is as long as the list with commas.
        match names.and_then(|map| Texts::collect(map.iter(), map.as_text().len())) {
            Some(names) => hostnames.fill_every_text(names),
            None => {
                let rule = ValueRule::of(keys::HOSTNAME.name());
                let of_map = (0_u32..).zip(&self.nodes);
                hostnames.fill(of_map.filter_map(|(index, node)| Some((index, rule.owned_cell(text(node.name()?))))));
            }
        }

        // A node with several names must be found by each.
        for (index, hostname) in given {
            self.node_mut(index, |node| {
                let known = node.map_name.map(str::to_owned).into_iter().chain(node.hostnames.iter().cloned());
                for name in known {
                    if Some(&name) != hostname.as_ref() && !node.aliases.contains(&name) {
                        node.aliases.push(name);
                    }
                }
            });
        }
        let aliases = self.columns.column(&Key::from_static(keys::HOSTNAME_ALIASES.name()));
        for (index, node) in (0..).zip(&self.nodes) {
            if !node.aliases.is_empty() {
                aliases.set(index, text(&node.aliases.join(",")));
            }
        }
    }

    fn add(&mut self) -> Result<u32, RegisterError> {
        within("nodes", u64::from(self.count()) + 1, u64::from(self.nodes_max))?;
        self.nodes.push(Node::default());
        Ok(self.count() - 1)
    }

    /// The node with a number: the node it was given to, else the node at this position of the map.
    pub(super) fn index_of_id(&self, id: u32) -> Option<u32> {
        let implied = || (id < self.implied_count && self.node(id)?.id.is_none()).then_some(id);
        self.by_id.get(&id).copied().or_else(implied)
    }

    /// The node with a number, if it may have this name, too. A node of the map may have only its long or short name,
    /// or an alias: with any other name the number means another node.
    pub(super) fn index_of_other_name(&self, hostname: &str, id: u32) -> Option<u32> {
        let is_it = |index: &u32| {
            let name = self.node(*index).and_then(Node::name);
            *index >= self.implied_count && self.by_id.contains_key(&id)
                || name.is_some_and(|name| is_longer(hostname, name) || is_longer(name, hostname))
        };
        self.index_of_id(id).filter(is_it)
    }

    /// Adds the names, aliases and number of a node.
    fn register(&mut self, index: u32, identity: NodeIdentity) -> Result<(), RegisterError> {
        if let Some(id) = identity.id {
            self.number(index, id, identity.anchor);
        }
        // Checked before the comparison with known aliases, which a repeated description repeats.
        let given = u64::try_from(identity.aliases.len()).unwrap_or(u64::MAX);
        self.check_aliases(given)?;
        if let Some(hostname) = &identity.hostname
            && !self.by_hostname.contains_key(hostname.as_str())
        {
            self.by_hostname.insert(Cow::Owned(hostname.clone()), index);
        }
        for alias in &identity.aliases {
            self.by_alias.entry(alias.clone()).or_insert(index);
        }
        self.node_mut(index, |node| {
            for alias in identity.aliases {
                if !node.aliases.contains(&alias) {
                    node.aliases.push(alias);
                }
            }
            match identity.hostname {
                Some(name) if node.map_name != Some(name.as_str()) && !node.hostnames.contains(&name) => {
                    node.hostnames.push(name);
                }
                _ => {}
            }
        });
        let name_count = self.node(index).map_or(0, Node::name_count);
        // One of the names is the host name.
        let alias_count = u64::try_from(name_count.saturating_sub(1)).unwrap_or(u64::MAX);
        self.check_aliases(alias_count)
    }

    /// Gives a node a number, even if another node has it.
    fn number(&mut self, index: u32, id: u32, anchor: Option<Anchor>) {
        if let Some(first) = self.by_id.insert(id, index).filter(|first| *first != index) {
            let claims = self.contested.entry(id).or_default();
            if claims.is_empty() {
                claims.push(Claim { index: first, order: self.claim_count, anchor: None });
            }
            self.claim_count += 1;
            claims.push(Claim { index, order: self.claim_count, anchor });
        }
        let old = self.node(index).and_then(|node| node.id);
        self.node_mut(index, |node| node.id = Some(id));
        if let Some(old) = old.filter(|old| *old != id && self.by_id.get(old) == Some(&index)) {
            self.hand_back(old);
        }
    }

    /// Returns a number that its node has given up to the node with the newest valid claim.
    fn hand_back(&mut self, id: u32) {
        self.by_id.remove(&id);
        let Some(mut claims) = self.contested.remove(&id) else { return };
        while claims.pop_if(|claim| !self.has_id(claim.index, id)).is_some() {}
        if let Some(newest) = claims.last() {
            self.by_id.insert(id, newest.index);
            self.contested.insert(id, claims);
        }
    }

    /// Confirms, after the whole description, that no two nodes have one number. Before, a later value may still change
    /// one of them. A node whose position is another node's number gets an unused number.
    pub(super) fn settle_ids(&mut self) -> Result<(), RegisterError> {
        self.check_ids()?;
        let mut next = self.implied_count;
        for index in 0..self.implied_count {
            if self.node(index).is_some_and(|node| node.id.is_some()) || !self.by_id.contains_key(&index) {
                continue;
            }
            while self.by_id.contains_key(&next) {
                next = next.wrapping_add(1);
            }
            self.number(index, next, None);
        }
        Ok(())
    }

    fn check_ids(&mut self) -> Result<(), RegisterError> {
        let contested = std::mem::take(&mut self.contested);
        let twice = |(id, claims): (u32, Vec<Claim>)| {
            let mut live = claims.into_iter().filter(|claim| self.has_id(claim.index, id));
            let first = live.next()?.index;
            live.find(|claim| claim.index != first).map(|second| (id, first, second))
        };
        let earliest = contested.into_iter().filter_map(twice).min_by_key(|(.., second)| second.order);
        let Some((id, first, second)) = earliest else { return Ok(()) };
        let error = RegisterError::NodeIdTwice { id, first, second: second.index }.about(keys::NODEID.name());
        Err(match second.anchor {
            Some(anchor) => error.anchored(anchor),
            None => error,
        })
    }

    fn has_id(&self, index: u32, id: u32) -> bool {
        self.node(index).is_some_and(|node| node.id == Some(id))
    }

    fn check_aliases(&self, found: u64) -> Result<(), RegisterError> {
        let checked = within("aliases of one node", found, u64::from(self.aliases_max));
        checked.map_err(|error| error.about(keys::HOSTNAME_ALIASES.name()))
    }

    fn node(&self, index: u32) -> Option<&Node<'m>> {
        self.nodes.get(usize::try_from(index).ok()?)
    }

    fn node_mut(&mut self, index: u32, change: impl FnOnce(&mut Node<'m>)) {
        let node = usize::try_from(index).ok().and_then(|index| self.nodes.get_mut(index));
        debug_assert!(node.is_some(), "node {index} was counted");
        if let Some(node) = node {
            change(node);
        }
    }
}

impl Node<'_> {
    /// Its name in the map, else the first name from an array.
    fn name(&self) -> Option<&str> {
        self.map_name.or_else(|| self.hostnames.first().map(String::as_str))
    }

    fn name_count(&self) -> usize {
        self.aliases.len() + self.hostnames.len() + usize::from(self.map_name.is_some())
    }
}

/// Files one value. Aliases are skipped: [`Nodes::register`] has taken them.
fn insert<'a>(columns: &mut Columns<'a>, index: u32, info: &'a Info) -> Result<(), RegisterError> {
    if info.key.as_str() == keys::HOSTNAME_ALIASES.name() {
        return Ok(());
    }
    columns.insert(index, info)
}

/// Whether `name` is `short` with a domain.
fn is_longer(name: &str, short: &str) -> bool {
    name.strip_prefix(short).is_some_and(|domain| domain.starts_with('.'))
}

fn text(text: &str) -> Value {
    Value::from(text)
}
