//! A scheduler's server asks the servers of other nodes for their inventories.

use std::collections::BTreeSet;
use std::time::Duration;

use crossbeam::channel::bounded;

use crate::keys;
use crate::runtime::{SharedTime, SystemServer, ToolError, handle_all};
use crate::server::CURRENT_INVENTORY;
use crate::topo::InventoryError;
use crate::topo::inventory::{Inventories, Inventory};
use crate::types::{AsStatus, Info, Key, Query, Status, Text, Value};

use super::client::Client;
use super::round_trip::RequestError;
use super::server::Server;
use super::server_call::ServerError;

/// The nodes whose servers answered [`Server::ask_for_inventories`], and the servers without an answer.
#[derive(Debug, Default)]
pub struct AskedInventories {
    /// The nodes, by name. Their inventories are delivered to the server that asked.
    pub nodes: BTreeSet<String>,
    /// The other servers, in the order of the addresses.
    pub failed: Vec<InventoryFailure>,
}

/// A server that gave no inventory.
#[derive(Debug, thiserror::Error)]
#[error("the server {address} gave no inventory: {reason}")]
pub struct InventoryFailure {
    /// Its address.
    pub address: String,
    /// The reason.
    #[source]
    pub reason: NoInventory,
}

/// The reason of a missing inventory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoInventory {
    /// The server can't be reached, or admits no tool of this user.
    #[error(transparent)]
    Unreached(#[from] ToolError),
    /// The server refused.
    #[error("{error}{advice}", error = .0, advice = advice(.0.status()))]
    Refused(#[source] RequestError),
    /// The answer did not come in time.
    #[error("no answer came in time")]
    TooSlow,
    /// The answer has no inventory.
    #[error("its answer has no inventory")]
    Missing,
    /// The answer is no valid inventory.
    #[error(transparent)]
    Invalid(#[from] InventoryError),
    /// Another server has answered for the same node.
    #[error("the inventory of {node} came from another address, too; give the address of one server for each node")]
    SecondOfNode {
        /// The node.
        node: String,
    },
}

/// Advice about a server that refuses.
const fn advice(status: Status) -> &'static str {
    match status {
        Status::ERR_NO_PERMISSIONS => "; it reads its machine for its own user and root alone",
        Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND => {
            "; its library must be a modex with modex.inventory.current"
        }
        Status::ERROR => "; its log has the reason",
        _ => "",
    }
}

impl AsStatus for NoInventory {
    fn status(&self) -> Status {
        match self {
            Self::Unreached(error) => error.status(),
            Self::Refused(error) => error.status(),
            Self::TooSlow => Status::ERR_TIMEOUT,
            Self::Missing => Status::ERR_NOT_FOUND,
            Self::Invalid(_) => Status::ERR_BAD_PARAM,
            Self::SecondOfNode { .. } => Status::ERR_DUPLICATE_KEY,
        }
    }
}

impl Server {
    /// Asks the servers at these addresses for the inventories of their nodes as they are now, and delivers them to this
    /// server, as [`Server::deliver_inventory`] does. So lost and found devices are events here. An address is that of
    /// `PMIX_SERVER_URI`, or `file:` and the path of a rendezvous file. This process asks as a tool of each server.
    ///
    /// 64 servers are asked at a time. Each has 10 s, and all together have `time_max`. A server without an answer is an
    /// [`InventoryFailure`], and what is known of its node stays. A server at a wrong address may answer for any node.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use modex::{LocalHost, Server, ToolAdmission, ToolSupport};
    ///
    /// let tools = ToolSupport { admission: ToolAdmission::Named, ..ToolSupport::default() };
    /// let daemon = Server::builder().hostname("node7").tools(tools).start(LocalHost)?;
    /// let address = daemon.uri();
    /// let scheduler = Server::builder().hostname("head").start(LocalHost)?;
    /// let asked = scheduler.ask_for_inventories(&[address], Duration::from_secs(10))?;
    /// assert!(asked.nodes.contains("node7") && asked.failed.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Refused`] for more nodes or bytes than a server keeps; nothing is delivered then.
    pub fn ask_for_inventories(
        &self,
        addresses: &[String],
        time_max: Duration,
    ) -> Result<AskedInventories, ServerError> {
        let time = SharedTime::begin(time_max);
        let ask = |address: &String| self.ask_for_inventory(address, &time);
        let answers = handle_all("modex-inventory", ASKED_AT_ONCE, addresses, ask);
        let (mut asked, mut blobs) = (AskedInventories::default(), Vec::new());
        for (answer, address) in answers.into_iter().zip(addresses) {
            let answer = answer.and_then(|(node, blob)| match asked.nodes.insert(node.clone()) {
                true => Ok(blob),
                false => Err(NoInventory::SecondOfNode { node }),
            });
            match answer {
                Ok(blob) => blobs.push(blob),
                Err(reason) => asked.failed.push(InventoryFailure { address: address.clone(), reason }),
            }
        }
        self.deliver_inventory(blobs).wait()?;
        Ok(asked)
    }

    /// The node of a server, and its inventory as a blob.
    fn ask_for_inventory(&self, address: &str, time: &SharedTime) -> Result<(String, Vec<u8>), NoInventory> {
        // A silent server holds up the later ones no longer than this.
        let time = &SharedTime::begin(time.left().min(ANSWER_TIME_MAX));
        if time.left().is_zero() {
            return Err(NoInventory::TooSlow);
        }
        let client = self.connect_for_question(Some(address.to_owned()), SystemServer::Any, time)?;
        let blob = answer_of(&client, time)?;
        Inventories::default().deliver([&blob[..]])?;
        let node = Inventory::decode(&blob)?.node;
        // The answer counts, and not the way in which the server is left.
        let _ = client.finalize();
        Ok((node, blob))
    }
}

/// Time for the connection to a server, and for its answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Servers that are asked at a time. Each answer takes the time in which a server reads its machine.
const ASKED_AT_ONCE: usize = 64;

fn answer_of(client: &Client, time: &SharedTime) -> Result<Vec<u8>, NoInventory> {
    let refresh = Info::new(Key::from_static(keys::QUERY_REFRESH_CACHE.name()), true);
    let query = Query { keys: vec![Text::from(CURRENT_INVENTORY)], qualifiers: vec![refresh] };
    let (sender, answer) = bounded(1);
    client.query(vec![query]).then(move |answer| drop(sender.send(answer))).map_err(NoInventory::Refused)?;
    let answered = match answer.recv_timeout(time.left()) {
        Ok(answered) => answered.map_err(NoInventory::Refused)?,
        Err(_) => return Err(NoInventory::TooSlow),
    };
    let blob = answered.results.into_iter().find_map(|info| match info.value {
        Value::ByteObject(blob) if info.key.as_str() == CURRENT_INVENTORY => Some(blob),
        _ => None,
    });
    blob.ok_or(NoInventory::Missing)
}
