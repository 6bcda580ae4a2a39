//! Sockets between a server and its clients: where to connect, who is at the other end, bytes and descriptors in order.
//!
//! Promises:
//! - a peer's identity comes from the kernel ([`Credentials`]), never from what it says;
//! - nothing here blocks except [`Stream::connect`], which a full backlog alone can hold up;
//! - what a peer can make us keep is bounded: unread bytes by [`StreamLimits`], descriptors by the same;
//! - a peer that goes away is an error value, never a signal (`MSG_NOSIGNAL`);
//! - what a [`Listener`] makes in the file system, it removes, and only in the process that made it.
//!
//! ```
//! use modex::ptl::{Listener, Received, SocketAccess, Stream, StreamLimits};
//!
//! let directory = std::env::temp_dir();
//! let listener = Listener::bind(&directory, SocketAccess::OwnerOnly)?;
//! let mut client = Stream::connect(listener.path(), StreamLimits::default())?;
//! let (mut server, credentials) = listener.accept(StreamLimits::default())?.expect("a client waits");
//! assert_eq!(credentials.pid, std::process::id());
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
mod credentials;
mod environment;
mod listener;
mod outbox;
pub mod rendezvous;
mod socket_directory;
mod stream;

pub use address::{AddressError, ServerAddress};
pub use credentials::Credentials;
pub use environment::{ClientEnvironment, EnvironmentError, ServerEnvironment};
pub use listener::{ListenError, Listener, SocketAccess};
pub use outbox::QueueFull;
pub use stream::{ConnectError, Flushed, Received, Stream, StreamError, StreamLimits};
