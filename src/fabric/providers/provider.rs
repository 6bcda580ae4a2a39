use std::fmt;

use super::hostlist::{HostlistError, excerpt};
use crate::fabric::{Fabric, FabricDescription, FabricError, NAME_BYTES_MAX};
use crate::topo::is_name_in_lists;

/// Bytes of a text. `ibnetdiscover` writes about 300 for each port: this is a fabric of 800,000 ports.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// A source of fabrics.
pub trait Provider: fmt::Debug + Send + Sync {
    /// Takes a text apart. Names, numbers and links are checked by [`Fabric::new`].
    ///
    /// # Errors
    /// [`ProviderError`] names the line.
    fn describe(&self, text: &str) -> Result<FabricDescription, ProviderError>;

    /// Reads a text.
    ///
    /// # Errors
    /// [`ProviderError`] names the line, plane, switch or device.
    fn read(&self, text: &str) -> Result<Fabric, ProviderError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ProviderError::TooLong);
        }
        Ok(Fabric::new(self.describe(text)?)?)
    }
}

/// The vendor of devices whose vendor is not known.
pub(super) const UNKNOWN: &str = "unknown";

/// A reason to refuse a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// A line is wrong.
    #[error("{unit} {number}: {fault}")]
    Part {
        /// The parts of the text: lines or entries.
        unit: &'static str,
        /// The number of the part, from 1.
        number: usize,
        /// The reason.
        fault: Fault,
    },
    /// The text describes no fabric.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The text is too long.
    #[error("the description has more than {TEXT_BYTES_MAX} bytes")]
    TooLong,
}

/// A reason to refuse a part of a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Neither of the known forms.
    #[error("{text:?} has none of the known forms")]
    Form {
        /// The start of the part.
        text: String,
    },
    /// A key that this library does not know here.
    #[error("the key '{key}' is not known here")]
    Key {
        /// The key.
        key: String,
    },
    /// A key twice in one line.
    #[error("the key '{key}' is in the line twice")]
    KeyTwice {
        /// The key.
        key: String,
    },
    /// A key without which the line says nothing.
    #[error("'{key}' is missing")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A list of names can't be read.
    #[error(transparent)]
    Hostlist(#[from] HostlistError),
    /// A name that no list can hold.
    #[error(
        "no {what} can have the name {name:?}: it is empty, is longer than {NAME_BYTES_MAX} bytes, or has a space, ',', ';', '/' or control \
         character"
    )]
    Name {
        /// Node, device or switch.
        what: &'static str,
        /// The start of the name.
        name: String,
    },
    /// A number is none, or is too large or small.
    #[error("{text:?} is no number from {min} to {max}")]
    Number {
        /// The start of the text.
        text: String,
        /// The smallest number.
        min: u32,
        /// The greatest number.
        max: u32,
    },
    /// A name has been described before.
    #[error("'{name}' was described before, on line {before}")]
    Twice {
        /// The name.
        name: String,
        /// The earlier line.
        before: usize,
    },
    /// A name is described nowhere.
    #[error("'{name}' is described nowhere")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The two ends of a cable name different ports.
    #[error("the cable leads to {end}, and from there to {other}")]
    Cable {
        /// The other end of the cable.
        end: String,
        /// The port that the other end names.
        other: String,
    },
    /// A switch is above itself.
    #[error("switch '{name}' is in a loop: it is above itself")]
    Loop {
        /// The name.
        name: String,
    },
    /// A switch of a dragonfly with nodes and with switches below.
    #[error("switch '{name}' of a dragonfly has nodes and switches")]
    Mixed {
        /// The name.
        name: String,
    },
    /// Blocks in a tree, or switches among blocks or rings.
    #[error("the file has lines of two kinds of topologies: trees, blocks or rings")]
    TwoKinds,
    /// Sizes of blocks that do not contain each other.
    #[error("a block of {size} nodes does not consist of whole blocks of {part} nodes")]
    BlockSizes {
        /// The larger size.
        size: u32,
        /// The smaller one.
        part: u32,
    },
    /// An error in YAML.
    #[error("the text is no YAML: {reason}")]
    Syntax {
        /// The reason.
        reason: String,
    },
    /// A reference to another place of the text.
    #[error("aliases are not read")]
    Alias,
    /// More than one text in a file.
    #[error("the file has a second document")]
    SecondDocument,
    /// More values than any topology has.
    #[error("the text has more than {max} values")]
    Values {
        /// The limit.
        max: usize,
    },
    /// Lists in lists.
    #[error("a value is in more than {max} lists and mappings")]
    Depth {
        /// The limit.
        max: usize,
    },
    /// A value of another kind.
    #[error("{expected} is needed here")]
    Kind {
        /// The kind that the key has.
        expected: &'static str,
    },
    /// No kind of topology, or two.
    #[error("topology '{name}' needs one of tree, block, flat, ring and torus3d")]
    TopologyKind {
        /// The topology.
        name: String,
    },
    /// Ports of switches in a test fabric of numbered nodes.
    #[error("{ports} ports are no choice here: the number of nodes decides; name the nodes")]
    Ports {
        /// The number of ports.
        ports: u32,
    },
    /// Another number of nodes than a torus has places.
    #[error("torus '{name}' has {nodes} nodes, and the sizes {sizes:?}")]
    Places {
        /// The torus.
        name: String,
        /// The number of nodes.
        nodes: usize,
        /// The sizes of its dimensions.
        sizes: Vec<u32>,
    },
    /// A device at a device.
    #[error("'{device}' has a link to '{peer}', which is no switch")]
    NoSwitch {
        /// The device.
        device: String,
        /// The other end.
        peer: String,
    },
}

impl Fault {
    /// This fault of a line.
    pub(super) fn on_line(self, number: usize) -> ProviderError {
        ProviderError::Part { unit: "line", number, fault: self }
    }

    /// A part with no known form.
    pub(super) fn form(text: &str) -> Self {
        Self::Form { text: excerpt(text) }
    }
}

/// The id of a port. Inventories and distances have adapters without ports, so the only port of an adapter has the
/// adapter's id.
pub(super) fn id_of_port(adapter: &str, port: &str, port_count: usize) -> String {
    if port_count == 1 { adapter.to_owned() } else { format!("{adapter}:{port}") }
}

/// Refuses a name that no list can hold.
pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), Fault> {
    if is_name_in_lists(name) { Ok(()) } else { Err(Fault::Name { what, name: excerpt(name) }) }
}

/// A number within bounds.
pub(super) fn number(text: &str, min: u32, max: u32) -> Result<u32, Fault> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| Fault::Number { text: excerpt(text), min, max })
}

/// The number of an element of a list that [`Fabric::new`] bounds.
pub(super) fn u32_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
