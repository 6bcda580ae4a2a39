//! Sockets between a server and its clients: where to connect, who is at the other end, bytes and descriptors in order.
//! Our own clients come over a UNIX-domain socket, those of other libraries over TCP on the loopback interface.
//!
//! Promises:
//! - a peer's user comes from the kernel ([`Credentials`]), never from what it says; over TCP the kernel is asked for
//!   the owner of the peer's socket;
//! - nothing here blocks except [`Stream::connect`], which a full backlog alone can hold up, and the wait of a client's
//!   leader for the next message (`Arrival::wait`);
//! - what a peer can make us keep is bounded: unread bytes by [`StreamLimits`], descriptors by the same;
//! - a peer that goes away is an error value, never a signal (`MSG_NOSIGNAL`);
//! - what a [`Listener`] makes in the file system, it removes, and only in the process that made it.
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

mod address;
mod arrival;
mod credentials;
mod environment;
mod kin;
mod listener;
mod outbox;
pub mod rendezvous;
mod socket_directory;
mod socket_owner;
mod stream;
mod tcp_listener;

pub use address::{AddressError, Endpoint, ModexAddress, ServerAddress};
pub(crate) use arrival::{Arrival, Waited};
pub use credentials::Credentials;
pub use environment::{ClientEnvironment, EnvironmentError, Proof, ServerEnvironment, ServerOffer};
pub use kin::{PeerEnd, strangers};
pub use listener::{ListenError, Listener, SocketAccess};
pub use outbox::QueueFull;
pub use socket_owner::OwnerError;
pub use stream::{ConnectError, Flushed, Received, Stream, StreamError, StreamLimits, Trust};
pub use tcp_listener::{ForeignClients, TcpListener};
