//! The inventories of many nodes.

use std::collections::BTreeMap;

use super::{Inventory, InventoryError};

/// Limit of nodes.
pub const NODES_MAX: usize = 1 << 16;
/// Bytes of their inventories together, as blobs.
const BYTES_MAX: usize = 256 << 20;

/// Delivered inventories, by node. A node's newer inventory replaces the older one.
#[derive(Clone, Debug, Default)]
pub struct Inventories {
    nodes: BTreeMap<String, Kept>,
    size_bytes: usize,
}

#[derive(Clone, Debug)]
struct Kept {
    inventory: Inventory,
    size_bytes: usize,
}

impl Inventories {
    /// Takes blobs, all of them or none.
    ///
    /// # Errors
    /// [`InventoryError`] if a blob is invalid, or if the total exceeds the limit.
    pub fn deliver<'a>(&mut self, blobs: impl IntoIterator<Item = &'a [u8]>) -> Result<(), InventoryError> {
        let mut arrived = BTreeMap::new();
        for blob in blobs {
            let inventory = Inventory::decode(blob)?;
            arrived.insert(inventory.node.clone(), Kept { inventory, size_bytes: blob.len() });
        }
        let (mut node_count, mut size_bytes) = (self.nodes.len(), self.size_bytes);
        for (node, kept) in &arrived {
            match self.nodes.get(node) {
                Some(older) => size_bytes = size_bytes.saturating_sub(older.size_bytes),
                None => node_count += 1,
            }
            size_bytes = size_bytes.saturating_add(kept.size_bytes);
        }
        if node_count > NODES_MAX {
            return Err(InventoryError::TooMany { what: "nodes", max: NODES_MAX });
        }
        if size_bytes > BYTES_MAX {
            return Err(InventoryError::TooMany { what: "bytes of all nodes", max: BYTES_MAX });
        }
        self.nodes.extend(arrived);
        self.size_bytes = size_bytes;
        Ok(())
    }

    /// The inventory of a node.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<&Inventory> {
        self.nodes.get(node).map(|kept| &kept.inventory)
    }

    /// All inventories, by node name.
    pub fn iter(&self) -> impl Iterator<Item = &Inventory> {
        self.nodes.values().map(|kept| &kept.inventory)
    }

    /// Number of inventories.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no inventories.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
