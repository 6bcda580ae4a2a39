use super::event::{is_of_programs, procs};
use crate::keys::{self, TypedKey};
use crate::types::codes::range;
use crate::types::{Info, InfoFlags, Key, ProcId, Status, Value};

/// The content of one registration.
///
/// Source: PMIx Standard, "Event Notification" (`PMIx_Register_event_handler`).
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The codes, each once, in order; none: a default handler.
    pub(super) codes: Vec<Status>,
    pub(super) name: Option<String>,
    pub(super) placement: HandlerPlacement,
    pub(super) sources: Sources,
    /// Restricts events to those about one of these, or about no process; empty: no restriction.
    pub(super) affected: Vec<ProcId>,
    /// Ends with its first call.
    pub(super) is_oneshot: bool,
    /// Entries that each call returns: name and object.
    pub(super) shown: Vec<Info>,
    /// Directives that this process does not honour itself.
    upward: Vec<Info>,
}

/// The requested place of a handler in the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum HandlerPlacement {
    /// Before all handlers, outside the chain: see [`Registration::observer`].
    Observer,
    First,
    Last,
    FirstInCategory,
    LastInCategory,
    Before(String),
    After(String),
    #[default]
    Front,
    Back,
}

/// Categories, in the order of calls: single-code handlers, multi-code handlers, default handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Category {
    Single,
    Multi,
    Default,
}

/// Sources whose events a handler takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sources {
    Anyone,
    /// Processes of the own namespace.
    Namespace,
    /// The own process.
    Own,
    Listed(Vec<ProcId>),
}

impl Registration {
    /// The directives that the process of the handler honours.
    pub(crate) const UNDERSTOOD: [&str; 15] = [
        keys::EVENT_HDLR_NAME.name(),
        keys::EVENT_HDLR_FIRST.name(),
        keys::EVENT_HDLR_LAST.name(),
        keys::EVENT_HDLR_FIRST_IN_CATEGORY.name(),
        keys::EVENT_HDLR_LAST_IN_CATEGORY.name(),
        keys::EVENT_HDLR_BEFORE.name(),
        keys::EVENT_HDLR_AFTER.name(),
        keys::EVENT_HDLR_PREPEND.name(),
        keys::EVENT_HDLR_APPEND.name(),
        keys::EVENT_CUSTOM_RANGE.name(),
        keys::EVENT_AFFECTED_PROC.name(),
        keys::EVENT_AFFECTED_PROCS.name(),
        keys::EVENT_RETURN_OBJECT.name(),
        keys::EVENT_ONESHOT.name(),
        keys::RANGE.name(),
    ];

    /// Reads the directives of a registration. Unknown ones are left for the server.
    ///
    /// # Errors
    /// [`RegistrationError`] for a known directive with an impossible value, for two places at once, and for an unknown
    /// required directive.
    pub fn parse(codes: &[Status], directives: &[Info]) -> Result<Self, RegistrationError> {
        let mut codes = codes.to_vec();
        codes.sort_unstable();
        codes.dedup();
        let mut registration = Self {
            codes,
            name: None,
            placement: HandlerPlacement::default(),
            sources: Sources::Anyone,
            affected: Vec::new(),
            is_oneshot: false,
            shown: Vec::new(),
            upward: Vec::new(),
        };
        let mut placed_by = None;
        for info in directives {
            registration.apply(info, &mut placed_by)?;
        }
        registration.restrict(directives)?;
        Ok(registration)
    }

    /// A registration of the library itself. It is called before all handlers, whatever their places, can't end the
    /// chain, and leaves no trace in the handlers' results. It sees events from its activation on, and none from
    /// before.
    #[must_use]
    pub fn observer(codes: &[Status]) -> Self {
        let mut codes = codes.to_vec();
        codes.sort_unstable();
        codes.dedup();
        Self {
            codes,
            name: None,
            placement: HandlerPlacement::Observer,
            sources: Sources::Anyone,
            affected: Vec::new(),
            is_oneshot: false,
            shown: Vec::new(),
            upward: Vec::new(),
        }
    }

    /// The codes; none: a default handler.
    #[must_use]
    pub fn codes(&self) -> &[Status] {
        &self.codes
    }

    /// Directives for the server and its host.
    #[must_use]
    pub fn upward(&self) -> &[Info] {
        &self.upward
    }

    pub(super) fn category(&self) -> Category {
        match self.codes.len() {
            0 => Category::Default,
            1 => Category::Single,
            _ => Category::Multi,
        }
    }

    fn apply(&mut self, info: &Info, placed_by: &mut Option<&'static str>) -> Result<(), RegistrationError> {
        let key = info.key.as_str();
        if key == keys::EVENT_HDLR_NAME.name() {
            self.name = Some(text(info)?);
            self.shown.push(info.clone());
        } else if key == keys::EVENT_RETURN_OBJECT.name() {
            self.shown.push(info.clone());
        } else if key == keys::EVENT_ONESHOT.name() {
            self.is_oneshot = flag(info)?;
        } else if let Some((key, placement)) = placement(info)? {
            if let Some(first) = placed_by.filter(|first| *first != key) {
                return Err(RegistrationError::Conflict { first, second: key });
            }
            *placed_by = Some(key);
            self.placement = placement;
        } else if !Self::UNDERSTOOD.contains(&key) {
            let is_required = info.flags().contains(InfoFlags::REQUIRED);
            if is_required && !self.codes.iter().any(|code| is_of_environment(*code)) {
                return Err(RegistrationError::NotSupported { key: info.key.clone() });
            }
            self.upward.push(info.clone());
        }
        Ok(())
    }

    /// Reads the requested sources and affected processes.
    fn restrict(&mut self, directives: &[Info]) -> Result<(), RegistrationError> {
        let with = |key: &str| directives.iter().find(|info| info.key.as_str() == key);
        let [custom, one, many] =
            [keys::EVENT_CUSTOM_RANGE.name(), keys::EVENT_AFFECTED_PROC.name(), keys::EVENT_AFFECTED_PROCS.name()];
        for key in [custom, one, many] {
            if let Some(info) = with(key)
                && procs(directives, key).next().is_none()
            {
                return Err(wrong(info, "a process or an array of processes"));
            }
        }
        self.affected = procs(directives, one).chain(procs(directives, many)).cloned().collect();
        let listed = || Sources::Listed(procs(directives, custom).cloned().collect());
        self.sources = match with(keys::RANGE.name()) {
            // Programs list processes without a range, and OpenPMIx then takes events of all sources.
            None => Sources::Anyone,
            Some(info) => match range_code(info)? {
                range::RANGE_NAMESPACE => Sources::Namespace,
                range::RANGE_PROC_LOCAL => Sources::Own,
                range::RANGE_CUSTOM if with(custom).is_some() => listed(),
                range::RANGE_CUSTOM => return Err(wrong(info, "processes in PMIX_EVENT_CUSTOM_RANGE beside it")),
                _ => Sources::Anyone,
            },
        };
        Ok(())
    }
}

/// Whether events with this code come from the environment, which sends them only on request. These are the standard's
/// system events, and all codes that neither the standard nor this library defines.
#[must_use]
pub const fn is_of_environment(code: Status) -> bool {
    is_system(code) || code.to_raw() > 0 || code.to_raw() == Status::EXTERNAL_ERR_BASE.to_raw() || is_of_programs(code)
}

/// Whether the code is one of the standard's system events.
#[must_use]
pub const fn is_system(code: Status) -> bool {
    code.to_raw() <= Status::EVENT_SYS_BASE.to_raw() && code.to_raw() >= Status::EVENT_SYS_OTHER.to_raw()
}

/// The place that the entry requests, with the entry's key.
fn placement(info: &Info) -> Result<Option<(&'static str, HandlerPlacement)>, RegistrationError> {
    const FLAGS: [(TypedKey<bool>, HandlerPlacement); 6] = [
        (keys::EVENT_HDLR_FIRST, HandlerPlacement::First),
        (keys::EVENT_HDLR_LAST, HandlerPlacement::Last),
        (keys::EVENT_HDLR_FIRST_IN_CATEGORY, HandlerPlacement::FirstInCategory),
        (keys::EVENT_HDLR_LAST_IN_CATEGORY, HandlerPlacement::LastInCategory),
        (keys::EVENT_HDLR_PREPEND, HandlerPlacement::Front),
        (keys::EVENT_HDLR_APPEND, HandlerPlacement::Back),
    ];
    let key = info.key.as_str();
    for (flag_key, placement) in FLAGS {
        if key == flag_key.name() {
            return Ok(flag(info)?.then_some((flag_key.name(), placement)));
        }
    }
    if key == keys::EVENT_HDLR_BEFORE.name() {
        return Ok(Some((keys::EVENT_HDLR_BEFORE.name(), HandlerPlacement::Before(text(info)?))));
    }
    if key == keys::EVENT_HDLR_AFTER.name() {
        return Ok(Some((keys::EVENT_HDLR_AFTER.name(), HandlerPlacement::After(text(info)?))));
    }
    Ok(None)
}

fn flag(info: &Info) -> Result<bool, RegistrationError> {
    info.value.as_bool().ok_or_else(|| wrong(info, "a boolean or no value"))
}

fn text(info: &Info) -> Result<String, RegistrationError> {
    info.value.as_str().map(str::to_owned).ok_or_else(|| wrong(info, "a UTF-8 string"))
}

fn range_code(info: &Info) -> Result<u8, RegistrationError> {
    let code = match info.value {
        Value::DataRange(code) => Some(code),
        ref number => number.as_u64().and_then(|code| u8::try_from(code).ok()),
    };
    code.filter(|code| *code <= range::RANGE_PROC_LOCAL).ok_or_else(|| wrong(info, "one of the standard's ranges"))
}

fn wrong(info: &Info, wanted: &'static str) -> RegistrationError {
    RegistrationError::WrongValue { key: info.key.clone(), wanted }
}

/// Reason why an event handler was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// Another handler has the place.
    #[error("another event handler is registered as {place}; deregister it first")]
    Taken {
        /// The place.
        place: &'static str,
    },
    /// No handler has the name that the placement refers to.
    #[error("no event handler has the name {name:?}; register it before the handler that refers to it")]
    UnknownName {
        /// The name given.
        name: String,
    },
    /// The handler can't be called in the requested place.
    #[error(
        "an event handler can't be called {wanted} {name:?}: the order of first, single-code, multi-code, default and last handlers is fixed"
    )]
    Order {
        /// Before or after.
        wanted: &'static str,
        /// The other handler.
        name: String,
    },
    /// The value has a type that this directive does not allow.
    #[error("directive {key:?} needs {wanted}; the given value is not one")]
    WrongValue {
        /// The directive.
        key: Key,
        /// The required type, for people.
        wanted: &'static str,
    },
    /// Two directives exclude each other.
    #[error("directive {second:?} contradicts {first:?}; give one of them")]
    Conflict {
        /// The earlier one.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A directive is required but unknown.
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
    /// The status in the standard's terms.
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
