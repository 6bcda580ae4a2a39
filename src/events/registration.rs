use crate::types::{Key, Status};

/// Why an event handler was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// Another handler has the place.
    #[error("another event handler is registered as {place}; deregister it first")]
    Taken {
        /// The place.
        place: &'static str,
    },
    /// A handler to be placed next to is not there.
    #[error("there is no event handler {name:?} to be placed next to; register that one first")]
    UnknownName {
        /// The name given.
        name: String,
    },
    /// The handler can't be called where it wants to be.
    #[error(
        "an event handler can't be called {wanted} {name:?}: the order of first, single-code, multi-code, default and last handlers is fixed"
    )]
    Order {
        /// Before or after.
        wanted: &'static str,
        /// The other handler.
        name: String,
    },
    /// The value has a type that this directive can't have.
    #[error("directive {key:?} needs {wanted}; the given value is not one")]
    WrongValue {
        /// The directive.
        key: Key,
        /// What it needs, for people.
        wanted: &'static str,
    },
    /// Two directives exclude each other.
    #[error("directive {second:?} contradicts {first:?}; give one of them")]
    Conflict {
        /// The one that came first.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A directive is marked as required and nobody knows it.
    #[error("directive {key:?} is required, but nothing here honours it")]
    NotSupported {
        /// The directive.
        key: Key,
    },
    /// The bound on handlers is reached.
    #[error("{limit} event handlers are registered, which is the limit; deregister some")]
    TooMany {
        /// The bound.
        limit: usize,
    },
}

impl RegistrationError {
    /// What it means in the standard's terms.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Taken { .. } | Self::UnknownName { .. } | Self::Order { .. } => Status::ERR_EVENT_REGISTRATION,
            Self::WrongValue { .. } | Self::Conflict { .. } => Status::ERR_BAD_PARAM,
            Self::NotSupported { .. } => Status::ERR_NOT_SUPPORTED,
            Self::TooMany { .. } => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}
