use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::host::{Host, Moment};
use super::request_quota::{Account, RequestOrigin};
use crate::proto::{Request, Tag};
use crate::server::{Input, PeerId, ToolHello};
use crate::types::{ProcId, footprint};

/// Knows the process of each connection, and reports to the host the moments that it may want to time.
pub(super) struct LifecycleObserver {
    host: Arc<dyn Host>,
    known: BTreeMap<PeerId, Known>,
    /// The names of tools that are no processes of the host's.
    tools: BTreeMap<PeerId, ProcId>,
}

/// The claimed identity of a connection.
enum Known {
    /// A process whose moments the host gets.
    Process(ProcId),
    /// A tool. If its name turns out to be registered, it becomes a process.
    Tool { uid: u32, claimed: Option<ProcId>, init_age: Option<Duration> },
}

impl Known {
    fn proc(&self) -> Option<&ProcId> {
        match self {
            Self::Process(proc) => Some(proc),
            Self::Tool { claimed, .. } => claimed.as_ref(),
        }
    }
}

impl LifecycleObserver {
    pub(super) fn new(host: Arc<dyn Host>) -> Self {
        Self { host, known: BTreeMap::new(), tools: BTreeMap::new() }
    }

    /// Notes an input about a connection before the core gets it.
    pub(super) fn see(&mut self, input: &Input, init_age: impl FnOnce(PeerId) -> Option<Duration>) {
        match input {
            Input::Connected(peer, hello) => self.begin(*peer, hello.proc.clone(), init_age(*peer)),
            Input::ToolConnected(peer, ToolHello { claimed, credentials, .. }) => {
                let (claimed, uid) = (claimed.clone(), credentials.uid);
                self.known.insert(*peer, Known::Tool { uid, claimed, init_age: init_age(*peer) });
            }
            Input::Request(peer, _, Request::Fence(_)) => self.reached(*peer, Moment::FenceBegun),
            Input::Lost(peer) => {
                if let Some(Known::Process(proc)) = self.known.get(peer) {
                    self.tell(proc, Moment::Left);
                }
                self.forget(*peer);
            }
            _ => {}
        }
    }

    fn begin(&mut self, peer: PeerId, proc: ProcId, init_age: Option<Duration>) {
        if let Some(age) = init_age {
            self.tell(&proc, Moment::InitBegun { age });
        }
        self.tell(&proc, Moment::Connected);
        self.known.insert(peer, Known::Process(proc));
    }

    /// A registered process has been admitted, in the role of a client or of a tool.
    pub(super) fn admitted(&mut self, peer: PeerId) {
        if let Some(Known::Tool { claimed: Some(proc), init_age, .. }) = self.known.get(&peer) {
            let (proc, init_age) = (proc.clone(), *init_age);
            self.begin(peer, proc, init_age);
        }
        self.reached(peer, Moment::Admitted);
    }

    /// A tool has been admitted under this name.
    pub(super) fn admitted_tool(&mut self, peer: PeerId, proc: ProcId) {
        self.tell(&proc, Moment::ToolAdmitted);
        self.tools.insert(peer, proc);
    }

    /// The other connections under this name.
    pub(super) fn namesakes(&self, peer: PeerId, proc: &ProcId) -> Vec<PeerId> {
        let others = self.known.iter().filter(|(id, known)| **id != peer && known.proc() == Some(proc));
        others.map(|(id, _)| *id).collect()
    }

    /// The owner of a connection, for messages.
    pub(super) fn name(&self, peer: PeerId) -> Option<String> {
        match self.known.get(&peer)? {
            Known::Process(proc) => Some(proc.to_string()),
            Known::Tool { uid, claimed, .. } => {
                let claimed = claimed.as_ref().map(|proc| format!(" {proc}")).unwrap_or_default();
                Some(format!("tool{claimed} of user {uid}"))
            }
        }
    }

    /// The connection's process reached this moment.
    pub(super) fn reached(&self, peer: PeerId, moment: Moment) {
        if let Some(Known::Process(proc)) = self.known.get(&peer) {
            self.tell(proc, moment);
        }
    }

    /// Without the catch, a panic of the host would end the server, and with it every client.
    fn tell(&self, proc: &ProcId, moment: Moment) {
        if catch_unwind(AssertUnwindSafe(|| self.host.observed(proc, moment))).is_err() {
            tracing::error!(%proc, ?moment, "the host panicked in Host::observed; it misses this moment");
        }
    }

    /// The process behind an input, and the size of the host's work for it. `request` gives the user and size of a
    /// request.
    pub(super) fn origin(
        &self,
        input: &Input,
        request: impl FnOnce(PeerId, Tag) -> (u32, usize),
    ) -> Option<RequestOrigin> {
        match input {
            Input::Connected(_, hello) => {
                let account = Account::Process(hello.proc.clone());
                Some(RequestOrigin { uid: hello.credentials.uid, account, size_bytes: 0 })
            }
            Input::ToolConnected(_, hello) => {
                let sizes = hello.info.iter().map(|info| footprint(&info.value).unwrap_or(usize::MAX));
                let (uid, size_bytes) = (hello.credentials.uid, sizes.fold(0, usize::saturating_add));
                Some(RequestOrigin { uid, account: Account::Tools(uid), size_bytes })
            }
            Input::Request(peer, tag, _) => {
                let account = match self.known.get(peer)? {
                    Known::Process(proc) => Account::Process(proc.clone()),
                    Known::Tool { uid, .. } => Account::Tools(*uid),
                };
                let (uid, size_bytes) = request(*peer, *tag);
                Some(RequestOrigin { uid, account, size_bytes })
            }
            _ => None,
        }
    }

    /// Forgets a connection that has ended, or that the server closes. A tool has gone with its last one.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.known.remove(&peer);
        if let Some(tool) = self.tools.remove(&peer)
            && !self.tools.values().any(|other| *other == tool)
        {
            self.tell(&tool, Moment::ToolGone);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;
    use crate::proto::{Collective, Version};
    use crate::server::{Capabilities, Credentials, ToolKind};
    use crate::types::Namespace;

    #[derive(Default)]
    struct Noting(Mutex<Vec<Moment>>);

    impl Host for Noting {
        fn capabilities(&self) -> Capabilities {
            Capabilities::empty()
        }

        fn observed(&self, _: &ProcId, moment: Moment) {
            self.0.lock().unwrap().push(moment);
        }
    }

    fn arrival(peer: u64, claimed: Option<ProcId>) -> Input {
        let hello = ToolHello {
            kind: ToolKind::Tool,
            claimed,
            is_started: false,
            credentials: Credentials { uid: 7, gid: 8 },
            claimed_gid: 8,
            reads_entries: true,
            version: Version::new(5, 0, 0),
            version_text: "5.0.0".to_owned(),
            info: Vec::new(),
            strangers: BTreeSet::new(),
        };
        Input::ToolConnected(PeerId(peer), hello)
    }

    /// Requests of tools were on no account, so a tool could give the host any amount of work.
    #[test]
    fn tools_are_on_their_users_account_however_often_and_by_whatever_name_they_come() {
        let host = Arc::new(Noting::default());
        let mut lifecycle_observer = LifecycleObserver::new(Arc::clone(&host) as Arc<dyn Host>);
        let named = ProcId::new(Namespace::new("t").unwrap(), 3);
        for (peer, claimed) in [(1, None), (2, Some(named))] {
            let input = arrival(peer, claimed);
            assert_eq!(lifecycle_observer.origin(&input, |_, _| (7, 0)).unwrap().account, Account::Tools(7));
            lifecycle_observer.see(&input, |_| None);
            let request = Input::Request(PeerId(peer), Tag(101), Request::JobInfo);
            let origin = lifecycle_observer.origin(&request, |_, _| (7, 5)).unwrap();
            assert_eq!((origin.uid, origin.account, origin.size_bytes), (7, Account::Tools(7), 5));
        }
        lifecycle_observer.see(&Input::Lost(PeerId(1)), |_| None);
        assert!(host.0.lock().unwrap().is_empty(), "tools are no processes of the host's");
    }

    #[test]
    fn a_tool_has_gone_with_its_last_connection() {
        let host = Arc::new(Noting::default());
        let mut lifecycle_observer = LifecycleObserver::new(Arc::clone(&host) as Arc<dyn Host>);
        for peer in [1, 2] {
            lifecycle_observer.see(&arrival(peer, None), |_| None);
            lifecycle_observer.admitted_tool(PeerId(peer), ProcId::new(Namespace::new("t").unwrap(), 0));
        }
        lifecycle_observer.see(&Input::Lost(PeerId(1)), |_| None);
        assert_eq!(*host.0.lock().unwrap(), [Moment::ToolAdmitted; 2]);
        lifecycle_observer.forget(PeerId(2));
        assert_eq!(host.0.lock().unwrap()[2..], [Moment::ToolGone]);
    }

    /// A process in a tool's role had no account, and the host missed its moments.
    #[test]
    fn an_announced_process_in_a_tools_role_is_that_process() {
        let host = Arc::new(Noting::default());
        let mut lifecycle_observer = LifecycleObserver::new(Arc::clone(&host) as Arc<dyn Host>);
        let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
        lifecycle_observer.see(&arrival(1, Some(proc.clone())), |_| None);
        lifecycle_observer.admitted(PeerId(1));
        let request = Input::Request(PeerId(1), Tag(101), Request::JobInfo);
        assert_eq!(lifecycle_observer.origin(&request, |_, _| (7, 0)).unwrap().account, Account::Process(proc.clone()));
        let fence = Request::Fence(Collective { procs: vec![proc], directives: Vec::new() });
        lifecycle_observer.see(&Input::Request(PeerId(1), Tag(102), fence), |_| None);
        lifecycle_observer.see(&Input::Lost(PeerId(1)), |_| None);
        let expected = [Moment::Connected, Moment::Admitted, Moment::FenceBegun, Moment::Left];
        assert_eq!(*host.0.lock().unwrap(), expected);
    }
}
