use super::services::with_services;

macro_rules! commands {
    ($(
        $(#[$service_doc:meta])*
        $service:ident = $service_code:literal, $capability:ident = $bit:literal,
        fn $method:ident($directives:ident) -> $answer:ty { $($fields:tt)* }
    )*) => {
        commands! {
            [$($service = $service_code,)*]
            /// REQ.
            JobInfo = 0,
            /// ABORT.
            Abort = 1,
            /// COMMIT.
            Commit = 2,
            /// FENCENB.
            Fence = 3,
            /// GETNB.
            Get = 4,
            /// FINALIZE.
            Finalize = 5,
            /// CONNECTNB.
            Connect = 10,
            /// DISCONNECTNB.
            Disconnect = 11,
            /// NOTIFY.
            Notify = 12,
            /// REGEVENTS.
            RegisterEvents = 13,
            /// DEREGEVENTS.
            DeregisterEvents = 14,
            /// IOF_PULL.
            IofPull = 22,
            /// GROUP_CONSTRUCT.
            GroupConstruct = 24,
            /// GROUP_JOIN.
            GroupJoin = 25,
            /// GROUP_INVITE.
            GroupInvite = 26,
            /// GROUP_LEAVE.
            GroupLeave = 27,
            /// GROUP_DESTRUCT.
            GroupDestruct = 28,
            /// IOF_DEREG.
            IofDeregister = 29,
            /// FABRIC_REGISTER.
            FabricRegister = 30,
            /// FABRIC_UPDATE.
            FabricUpdate = 31,
            /// COMPUTE_DEVICE_DISTANCES.
            ComputeDistances = 32,
            /// REFRESH_CACHE.
            RefreshCache = 33,
            /// RESBLK.
            ResourceBlock = 34,
            /// SESSION_CTRL.
            SessionControl = 35,
            /// RESOLVE_PEERS.
            ResolvePeers = 37,
            /// RESOLVE_NODE.
            ResolveNode = 38,
            /// GDS_FALLBACK.
            StoreFallback = 39,
        }
    };
    ([$($service:ident = $service_code:literal,)*] $($(#[$doc:meta])* $command:ident = $code:literal,)*) => {
        /// The kind of a request: its first field.
        ///
        /// The numbers never changed, only grew.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Command {
            $(
                /// A service of the host: see the request of this name.
                $service = $service_code,
            )*
            $($(#[$doc])* $command = $code,)*
        }

        impl Command {
            /// Every command that has a request type.
            pub const ALL: &'static [Self] = &[$(Self::$service,)* $(Self::$command,)*];

            /// Reads the number; `None` for a number without a request type.
            #[must_use]
            pub const fn from_raw(raw: u8) -> Option<Self> {
                match raw {
                    $($service_code => Some(Self::$service),)*
                    $($code => Some(Self::$command),)*
                    _ => None,
                }
            }

            /// Whether it is a service of the host.
            const fn is_service(self) -> bool {
                matches!(self, $(Self::$service)|*)
            }

            /// The number.
            #[must_use]
            pub const fn to_raw(self) -> u8 {
                match self {
                    $(Self::$service => $service_code,)*
                    $(Self::$command => $code,)*
                }
            }
        }
    };
}

with_services!(commands);

/// Longest list in a request whose lists do not grow with the size of a job. The server and its host process such a
/// list without a pause, while all other requests wait.
const LISTED_MAX: usize = 1 << 16;

impl Command {
    /// The longest list that a request of this kind may have. A process's values and a job's processes may be many.
    pub(super) const fn listed_max(self) -> usize {
        match self {
            // Processes of a job.
            Self::JobControl | Self::IofPush => usize::MAX,
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
