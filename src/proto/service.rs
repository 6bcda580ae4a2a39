//! Requests of services: types and bytes, made from the table of services.

use super::layout::{Each, Layout, Many, One, SinceRelease3, layout};
use super::services::with_services;
use super::{Command, Version};
use crate::bfrops::wire;
use crate::bfrops::{EncodeError, Writer};
use crate::types::{App, Info, Key, ProcId, Query, Status};

/// Makes the types of the requests, and the two directions of their bytes and of their replies.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $name:ident = $code:literal, $capability:ident = $bit:literal, fn $method:ident($directives:ident) -> $answer:ty {
            $([$wire_field:ident: $wire_type:ty = $wire_value:expr => $wire_layout:ty],)?
            $($(#[$field_doc:meta])* $field:ident: $type:ty => $layout:ty,)*
        }
    )*) => {
        /// A request that the host answers.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Service {
            $($(#[$doc])* $name($name),)*
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name {
                $(
                    /// A field of the wire. A host gets no value here: the server takes the user from the kernel, and
                    /// the time goes into the directives.
                    pub $wire_field: $wire_type,
                )?
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl $name {
                /// The request. Facts for foreign servers are added when it is sent.
                #[must_use]
                pub const fn new($($field: $type),*) -> Self {
                    Self { $($wire_field: $wire_value,)? $($field),* }
                }
            }

            impl From<$name> for Service {
                fn from(request: $name) -> Self {
                    Self::$name(request)
                }
            }

        )*

        layout! {
            $($name { $($wire_field: $wire_layout,)? $($field: $layout),* })*
        }

        impl Service {
            /// Clears the fields that only the wire has.
            pub fn forget_claims(&mut self) {
                match self {
                    $(Self::$name(_request) => {
                        $(_request.$wire_field = $wire_value;)?
                    })*
                }
            }

            /// The command that the request is sent as.
            #[must_use]
            pub const fn command(&self) -> Command {
                match self {
                    $(Self::$name(_) => Command::$name,)*
                }
            }

            pub(super) fn pack(&self, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
                match self {
                    $(Self::$name(request) => $name::pack(request, writer, peer),)*
                }
            }
        }
    };
}

with_services!(requests);
