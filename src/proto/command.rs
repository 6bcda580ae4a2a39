use super::services::with_requests;

/// Makes the commands from the table of requests.
macro_rules! commands {
    ($($form:ident { $(
        $(#[$doc:meta])* $command:ident = $code:literal $(, $body:ty as $layout:ty)? => $answer:ty;
    )* })*) => {
        /// The kind of a request: its first field.
        ///
        /// The numbers never changed, only grew.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Command {
            $($($(#[$doc])* $command = $code,)*)*
        }

        impl Command {
            /// Every command that has a request type.
            pub const ALL: &'static [Self] = &[$($(Self::$command,)*)*];

            /// Reads the number; `None` for a number without a request type.
            #[must_use]
            pub const fn from_raw(raw: u8) -> Option<Self> {
                match raw {
                    $($($code => Some(Self::$command),)*)*
                    _ => None,
                }
            }

            /// The number.
            #[must_use]
            pub const fn to_raw(self) -> u8 {
                match self {
                    $($(Self::$command => $code,)*)*
                }
            }
        }
    };
}

with_requests!(commands);

/// Longest list in a request whose lists do not grow with the size of a job. The server and its host process such a
/// list without a pause, while all other requests wait.
const LISTED_MAX: usize = 1 << 16;

impl Command {
    /// The longest list that a request of this kind may have. A process's values and the members of an operation may be
    /// many.
    pub(super) const fn listed_max(self) -> usize {
        match self {
            Self::RegisterEvents | Self::DeregisterEvents | Self::IofPull => LISTED_MAX,
            service if service.is_service() => LISTED_MAX,
            _ => usize::MAX,
        }
    }

    /// Whether the requester waits for an answer. 6.1 peers complain about an unexpected reply.
    #[must_use]
    pub const fn expects_reply(self) -> bool {
        !matches!(self, Self::DeregisterEvents)
    }
}
