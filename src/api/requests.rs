//! Requests of a client that consist of one message and its reply.

use std::sync::Arc;

use crate::proto::{Credential, Reply, Service, with_services};
use crate::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, ResourceUnit, Status, Text};

use super::client::Client;
use super::pending::Pending;
use super::round_trip::{self, Answered, ClientAnswer, Group, RequestTarget, RoundTrip};
use super::server::Server;

/// The methods of [`Client`] and [`Server`] for each service.
macro_rules! services {
    ($(
        $(#[$doc:meta])*
        $service:ident = $code:literal, $capability:ident = $bit:literal,
        fn $method:ident($directives:ident) -> $answer:ty {
            $([$wire_field:ident: $wire_type:ty = $wire_value:expr => $wire_layout:ty],)?
            $($(#[$field_doc:meta])* $field:ident: $type:ty => $layout:ty,)*
        }
    )*) => {
        impl Client {
            $(
                $(#[$doc])*
                ///
                /// Fails with [`RequestError`](crate::RequestError), which holds the host's status among others.
                pub fn $method(&self, $($field: $type),*) -> Pending<RoundTrip<<$answer as ClientAnswer>::Given>> {
                    Pending(RoundTrip::of(self.target(), crate::proto::$service::new($($field),*)))
                }
            )*
        }

        /// Services of the host for the server's own process. No message is made: the host's function runs on the
        /// caller's thread and gets the server as the requester. Only the host limits the time. With
        /// [`ServerBuilder::name_service`](crate::ServerBuilder::name_service) the server may answer three of them
        /// itself.
        impl Server {
            $(
                $(#[$doc])*
                ///
                /// The requester is the server's own process. Fails with [`RequestError`](crate::RequestError).
                pub fn $method(&self, $($field: $type),*) -> Pending<RoundTrip<<$answer as ClientAnswer>::Given>> {
                    Pending(RoundTrip::of(self.target(), crate::proto::$service::new($($field),*)))
                }
            )*
        }
    };
}

with_services!(services);

/// Requests that are the same for a client and for the server's own process.
macro_rules! common_requests {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                ///
                /// Fails with [`RequestError`](crate::RequestError), which holds the host's status among others.
                pub fn $name(&self, $($argument: $type),*) -> Pending<RoundTrip<$result>> {
                    Pending(round_trip::$name(self.target(), $($argument),*))
                }
            )*
        }

        /// Collective operations and questions of the server's own process. No message is made.
        impl Server {
            $(
                $(#[$doc])*
                ///
                /// The requester is the server's own process. The host's function, or the job's description, has the
                /// answer. Fails with [`RequestError`](crate::RequestError).
                pub fn $name(&self, $($argument: $type),*) -> Pending<RoundTrip<$result>> {
                    Pending(round_trip::$name(self.target(), $($argument),*))
                }
            )*
        }
    };
}

common_requests! {
    /// Connects processes: the host treats them as belonging together. Each of them must call this, and name the same
    /// set in the same way. Job data of all their namespaces is available afterwards.
    connect_processes(procs: Vec<ProcId>, directives: Vec<Info>) -> ();

    /// Disconnects processes that were connected. Each of the processes must call this.
    disconnect_processes(procs: Vec<ProcId>, directives: Vec<Info>) -> ();

    /// Forms a group. Every member must call this. If members were lost meanwhile, the status may say so.
    group_construct(id: &str, procs: Vec<ProcId>, directives: Vec<Info>) -> Answered<Group>;

    /// Dissolves a group. Every member must call this.
    group_destruct(id: &str, directives: Vec<Info>) -> ();

    /// The processes of a namespace (`None`: of all) on a node (`None`: this one). The list may be empty. A [`Server`]
    /// asks for one namespace only.
    resolve_peers(node: Option<&str>, namespace: Option<&Namespace>) -> Vec<ProcId>;

    /// The nodes of a namespace (`None`: of all), as a list with commas. A [`Server`] asks for one namespace only.
    resolve_nodes(namespace: Option<&Namespace>) -> Text;
}

impl Client {
    /// A service whose answer is not converted.
    #[doc(hidden)]
    pub fn service(&self, service: Service) -> Pending<RoundTrip<Reply>> {
        Pending(RoundTrip::unread(self.target(), service))
    }

    pub(super) fn target(&self) -> RequestTarget {
        RequestTarget::Session(Arc::clone(self.session()))
    }
}

impl Server {
    /// A service whose answer is not converted.
    #[doc(hidden)]
    pub fn service(&self, service: Service) -> Pending<RoundTrip<Reply>> {
        Pending(RoundTrip::unread(self.target(), service))
    }

    pub(super) fn target(&self) -> RequestTarget {
        RequestTarget::Host(Arc::clone(self.handle.own_process()))
    }
}
