//! The state of an operation that goes to the host before all its jobs are registered.

use crate::types::Time;

/// The state of an operation that lacked nothing but registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlyConnect {
    /// The host has been asked. Some jobs are not registered yet, or some of their processes have not arrived.
    is_gathering: bool,
    /// Number of participants that had ended without arriving when the host was asked; the host knows these.
    departed: usize,
    /// More participants have ended since.
    is_short: bool,
    /// Bounds the wait for registrations: after the host's answer, or before the request to the host.
    until: Option<Time>,
    /// The wait for registrations is over: unregistered jobs are on other nodes.
    has_waited: bool,
}

impl EarlyConnect {
    /// The host is asked now. `departed` participants have ended without arriving.
    pub(crate) fn at_host(departed: usize) -> Self {
        Self { is_gathering: true, departed, ..Self::default() }
    }

    /// Whether the host was asked, and some participants have not arrived.
    pub(crate) const fn is_gathering(&self) -> bool {
        self.is_gathering
    }

    /// Whether participants have ended since the request to the host.
    pub(crate) const fn is_short(&self) -> bool {
        self.is_short
    }

    /// Whether the wait for registrations is over.
    pub(crate) const fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// The end of a running wait for registrations.
    pub(crate) const fn until(&self) -> Option<Time> {
        self.until
    }

    /// Begins the wait for registrations.
    pub(crate) const fn wait_until(&mut self, until: Time) {
        self.until = Some(until);
    }

    /// Ends the wait for registrations.
    pub(crate) const fn end_wait(&mut self) {
        (self.until, self.has_waited) = (None, true);
    }

    /// All participants have arrived, except those that have `departed`. Returns the end of a running wait.
    pub(crate) const fn complete(&mut self, departed: usize) -> Option<Time> {
        self.is_gathering = false;
        self.is_short = departed > self.departed;
        self.until.take()
    }
}
