//! Sockets between a server and its clients: addresses, the peer's identity, ordered bytes and descriptors.
//! Our own clients come over a UNIX-domain socket, those of other libraries over TCP on the loopback interface.
//!
//! Promises:
//! - a peer's user comes from the kernel ([`PeerCredentials`]), never from the peer; over TCP the kernel names the owner
//!   of the peer's socket;
//! - only two calls block: [`Stream::connect`], which only a full backlog can delay, and the wait of a client's leader
//!   for the next message (`Arrival::wait`);
//! - a peer's claim on our memory is bounded: unread bytes and descriptors by [`StreamLimits`];
//! - a peer that goes away is an error value, never a signal (`MSG_NOSIGNAL`);
//! - a [`Listener`] removes all that it makes in the file system, and only in the process that made it.
//!
//! ```
//! use modex::ptl::{Endpoint, Listener, Received, SocketAccess, Stream, StreamLimits};
//!
//! let directory = std::env::temp_dir();
//! let listener = Listener::bind(&directory, SocketAccess::OwnerOnly)?;
//! let endpoint = Endpoint::Unix(listener.path().to_owned());
//! let mut client = Stream::connect(&endpoint, StreamLimits::default())?;
//! let (mut server, credentials) = listener.accept(StreamLimits::default())?.expect("a client waits");
//! assert_eq!(credentials.pid, Some(std::process::id()));
//!
//! client.queue(b"hello".to_vec(), None)?;
//! client.flush()?;
//! let mut buffer = [0; 64];
//! assert_eq!(server.receive(&mut buffer)?, Received::Bytes(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: OpenPMIx wire protocol, "Transport and rendezvous" and "Environment contract"; the UNIX-domain transport and
//! the variable `MODEX_SERVER_URI` are ours.

#[doc(hidden)] // For the command.
pub mod abandoned;
mod address;
mod arrival;
mod credentials;
mod environment;
mod interfaces;
mod listener;
mod outbox;
mod ports;
mod process_ancestry;
pub mod rendezvous;
mod socket_directory;
mod socket_owner;
mod stream;
mod tcp_listener;

pub use address::{AddressError, Endpoint, ModexAddress, ServerAddress};
pub(crate) use arrival::{Arrival, Waited};
pub use arrival::{Received, StreamError};
pub use credentials::PeerCredentials;
pub use environment::{
    ClientEnvironment, EnvironmentError, LAUNCHER_PREFIX, LAUNCHER_SERVER_NAME, Proof, ServerEnvironment, ServerOffer,
};
pub use interfaces::{Interfaces, InterfacesError};
pub use listener::{Listener, SocketAccess};
pub use outbox::{QueueFull, SharedBytes, SpentMessages};
pub(crate) use ports::port_range;
pub use ports::{Ports, PortsError};
pub use process_ancestry::{PeerEnd, strangers};
pub use socket_directory::ListenError;
pub use socket_owner::OwnerError;
pub use stream::{EndpointError, Flushed, Stream, StreamLimits, Trust};
pub use tcp_listener::{ForeignClients, TcpListener, TcpOptions};
