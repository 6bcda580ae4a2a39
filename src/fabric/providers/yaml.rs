//! A YAML text as a tree of bounded size, in which each value knows its line.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser};

use super::hostlist::excerpt;
use super::provider::{Fault, ProviderError, number, u32_of};

/// Lists and mappings around a value. Slurm's `topology.yaml` has eight at most.
pub(super) const DEPTH_MAX: usize = 16;

/// Values of a text. A topology with as many switches as a plane may have takes a million.
pub(super) const VALUES_MAX: usize = 1 << 21;

/// A value and its line, from 1.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Scalar(String),
    List(Vec<Node>),
    /// Keys with their lines.
    Mapping(Vec<(String, usize, Node)>),
}

/// A mapping whose keys are taken one by one.
#[derive(Debug)]
pub(super) struct Fields {
    line: usize,
    fields: Vec<(String, usize, Node)>,
}

/// An unfinished list or mapping.
struct Open {
    node: Node,
    /// The last key of a mapping, until its value follows.
    key: Option<(String, usize)>,
}

/// The value of the only document of a text; `None` for an empty one. Aliases are refused, as in Slurm.
pub(super) fn parse(text: &str, values_max: usize) -> Result<Option<Node>, ProviderError> {
    let mut tree = Tree { root: None, open: Vec::new(), value_count: 0, values_max };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) =
            event.map_err(|error| Fault::Syntax { reason: excerpt(error.info()) }.on_line(error.marker().line()))?;
        let line = span.start.line();
        tree.add(event, line).map_err(|fault| fault.on_line(line))?;
    }
    Ok(tree.root)
}

struct Tree {
    root: Option<Node>,
    open: Vec<Open>,
    value_count: usize,
    values_max: usize,
}

impl Tree {
    fn add(&mut self, event: Event<'_>, line: usize) -> Result<(), Fault> {
        match event {
            Event::Alias(_) => Err(Fault::Alias),
            Event::DocumentStart(_) if self.root.is_some() => Err(Fault::SecondDocument),
            Event::Scalar(text, ..) => {
                self.check_count()?;
                self.close(Node { line, kind: Kind::Scalar(text.into_owned()) })
            }
            Event::SequenceStart(..) => self.open(Node { line, kind: Kind::List(Vec::new()) }),
            Event::MappingStart(..) => self.open(Node { line, kind: Kind::Mapping(Vec::new()) }),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { node, .. }) => self.close(node),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn check_count(&mut self) -> Result<(), Fault> {
        self.value_count += 1;
        if self.value_count > self.values_max { Err(Fault::Values { max: self.values_max }) } else { Ok(()) }
    }

    fn open(&mut self, node: Node) -> Result<(), Fault> {
        self.check_count()?;
        if self.open.len() == DEPTH_MAX {
            return Err(Fault::Depth { max: DEPTH_MAX });
        }
        self.open.push(Open { node, key: None });
        Ok(())
    }

    /// Puts a whole value at its place.
    fn close(&mut self, value: Node) -> Result<(), Fault> {
        let Some(Open { node, key }) = self.open.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        match (&mut node.kind, key.take()) {
            (Kind::List(list), _) => list.push(value),
            (Kind::Mapping(fields), Some((name, line))) => fields.push((name, line, value)),
            (Kind::Mapping(_), None) => *key = Some((value.text()?.to_owned(), value.line)),
            (Kind::Scalar(_), _) => {}
        }
        Ok(())
    }
}

impl Node {
    pub(super) fn text(&self) -> Result<&str, Fault> {
        match &self.kind {
            Kind::Scalar(text) => Ok(text),
            Kind::List(_) | Kind::Mapping(_) => Err(Fault::Kind { expected: "a text" }),
        }
    }

    /// A number within bounds.
    pub(super) fn number(&self, min: u32, max: usize) -> Result<u32, Fault> {
        number(self.text()?, min, u32_of(max))
    }

    /// The elements of a list.
    pub(super) fn list(self) -> Result<Vec<Self>, ProviderError> {
        match self.kind {
            Kind::List(list) => Ok(list),
            Kind::Scalar(_) | Kind::Mapping(_) => Err(Fault::Kind { expected: "a list" }.on_line(self.line)),
        }
    }

    /// The fields of a mapping. Each key stands there once.
    pub(super) fn fields(self) -> Result<Fields, ProviderError> {
        let Kind::Mapping(fields) = self.kind else {
            return Err(Fault::Kind { expected: "a mapping" }.on_line(self.line));
        };
        let mut lines = BTreeMap::new();
        for (name, line, _) in &fields {
            if let Some(before) = lines.insert(name, *line) {
                return Err(Fault::Twice { name: excerpt(name), before }.on_line(*line));
            }
        }
        Ok(Fields { line: self.line, fields })
    }
}

impl Fields {
    /// The value of a key, which the mapping has no more.
    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        let place = self.fields.iter().position(|(name, ..)| name == key)?;
        Some(self.fields.swap_remove(place).2)
    }

    /// The value of a key that must be there.
    pub(super) fn need(&mut self, key: &'static str) -> Result<Node, ProviderError> {
        self.take(key).ok_or_else(|| Fault::Missing { key }.on_line(self.line))
    }

    /// Refuses keys that nobody has taken.
    pub(super) fn finish(self) -> Result<(), ProviderError> {
        match self.fields.into_iter().min_by_key(|(_, line, _)| *line) {
            Some((name, line, _)) => Err(Fault::Key { key: excerpt(&name) }.on_line(line)),
            None => Ok(()),
        }
    }
}
