//! Requests of services: types and bytes, made from the table of services.

use super::layout::{Each, Layout, Many, Newer, One, SinceRelease3, layout};
use super::services::with_services;
use super::{Command, Credential, Version};
use crate::bfrops::wire;
use crate::bfrops::{EncodeError, Writer};
use crate::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, ResourceUnit, Status, Text};

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

            impl ServiceRequest for $name {
                type Answer = $answer;
            }

        )*

        layout! {
            $($name { $($wire_field: $wire_layout,)? $($field: $layout),* })*
        }

        impl Command {
            /// Whether it is a service of the host.
            pub(crate) const fn is_service(self) -> bool {
                matches!(self, $(Self::$name)|*)
            }
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

            /// The form of the host's answer.
            #[must_use]
            pub const fn form(&self) -> AnswerForm {
                match self {
                    $(Self::$name(_) => <$answer as ServiceAnswer>::FORM,)*
                }
            }

            /// The capability of a host that has the service, as the number of a bit.
            pub(crate) const fn capability_bit(&self) -> u32 {
                match self {
                    $(Self::$name(_) => $bit,)*
                }
            }

            /// The lists of directives: one, the qualifiers of each query, or none.
            #[must_use]
            pub fn directives(&self) -> Vec<&Vec<Info>> {
                match self {
                    $(Self::$name(request) => request.$directives.lists(),)*
                }
            }

            /// As [`Service::directives`], for changes.
            pub(crate) fn directives_mut(&mut self) -> Vec<&mut Vec<Info>> {
                match self {
                    $(Self::$name(request) => request.$directives.lists_mut(),)*
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

/// The request of a service.
pub trait ServiceRequest: Into<Service> {
    /// The answer of the host.
    type Answer: ServiceAnswer + 'static;
}

/// The answer of a service.
pub trait ServiceAnswer {
    /// Its form.
    const FORM: AnswerForm;
}

/// The form of a successful answer of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// No data.
    Status,
    /// Published data.
    Lookup,
    /// Infos.
    Infos,
    /// The namespace of a job.
    Namespace,
    /// A credential.
    Credential,
}

macro_rules! answers {
    ($($answer:ty: $form:ident,)*) => {
        $(impl ServiceAnswer for $answer {
            const FORM: AnswerForm = AnswerForm::$form;
        })*
    };
}

answers! {
    (): Status,
    Vec<Pdata>: Lookup,
    Vec<Info>: Infos,
    Namespace: Namespace,
    Credential: Credential,
}

/// A part of a request that holds directives.
trait Directives {
    fn lists(&self) -> Vec<&Vec<Info>>;
    fn lists_mut(&mut self) -> Vec<&mut Vec<Info>>;
}

impl Directives for Vec<Info> {
    fn lists(&self) -> Vec<&Vec<Info>> {
        vec![self]
    }

    fn lists_mut(&mut self) -> Vec<&mut Vec<Info>> {
        vec![self]
    }
}

/// The number of a fabric; such a request has no directives.
impl Directives for u64 {
    fn lists(&self) -> Vec<&Vec<Info>> {
        Vec::new()
    }

    fn lists_mut(&mut self) -> Vec<&mut Vec<Info>> {
        Vec::new()
    }
}

/// Each query has qualifiers of its own.
impl Directives for Vec<Query> {
    fn lists(&self) -> Vec<&Vec<Info>> {
        self.iter().map(|query| &query.qualifiers).collect()
    }

    fn lists_mut(&mut self) -> Vec<&mut Vec<Info>> {
        self.iter_mut().map(|query| &mut query.qualifiers).collect()
    }
}
