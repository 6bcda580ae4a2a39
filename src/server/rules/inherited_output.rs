//! Output of spawned jobs for the tools that watch their spawner.
//!
//! Each pull of a tool that covers the spawner gets the output of the new job, too, under the tool's own number. That
//! ends with the pull or with the job. The host is not asked: it has started the job, and knows its spawner.
//!
//! `PMIX_IOF_INHERIT` = false refuses this, in the description of the job or in its spawn. A spawn that names channels
//! with `PMIX_FWD_STDOUT` or its like refuses it, too.

use std::collections::{BTreeMap, BTreeSet};

use super::access::Action;
use super::forwarding::OUTPUT_CHANNELS;
use crate::gds::{Datastore, KeyRef, Lookup, RealmRequest};
use crate::keys;
use crate::server::interface::PeerId;
use crate::server::state::{Collected, OutputPull, Peer, ServerCore};
use crate::types::{Info, Namespace, ProcId, Rank, Time, Value};

impl<S: Datastore> ServerCore<S> {
    /// A job is described. Its infos may name its spawner, and refuse.
    pub(super) fn inherit_pulls_of_description<'i>(
        &mut self,
        now: Time,
        job: &Namespace,
        mut infos: impl Iterator<Item = &'i Info>,
    ) {
        if infos.any(|info| info.key.as_str() == keys::IOF_INHERIT.name() && info.value.as_bool() == Some(false)) {
            self.refuse_inheritance(job);
        }
        if self.forwarding.granted().next().is_none() {
            return;
        }
        // A host may describe the spawner of the job, or that of each process.
        if let Some(spawner) = [Rank::Wildcard, Rank::Process(0)].into_iter().find_map(|rank| self.spawner(job, rank)) {
            self.inherit_pulls(now, &spawner, job);
        }
    }

    /// The process of another job that has started this one, as its description says.
    pub(super) fn spawner(&self, job: &Namespace, rank: Rank) -> Option<ProcId> {
        let key = KeyRef::new(keys::PARENT_ID.name());
        let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience: None };
        let Ok(Value::Proc(spawner)) = self.store.lookup(job, &lookup) else { return None };
        (spawner.namespace != *job && !spawner.namespace.is_nobodys()).then_some(*spawner)
    }

    /// Lets the pulls of tools that cover a process get the output of a job that it has started.
    fn inherit_pulls(&mut self, now: Time, spawner: &ProcId, job: &Namespace) {
        if self.forwarding.refuses_inheritance(job) {
            return;
        }
        let everybody = ProcId { namespace: job.clone(), rank: Rank::Wildcard };
        let mut channels_of: BTreeMap<u64, u16> = BTreeMap::new();
        for channel in (0..u16::BITS).map(|bit| 1 << bit).filter(|channel| OUTPUT_CHANNELS & channel != 0) {
            for reference in self.forwarding.takers_of(spawner, channel) {
                *channels_of.entry(reference).or_default() |= channel;
            }
        }
        for (reference, channels) in channels_of {
            let Some(pull) = self.forwarding.pull(reference) else { continue };
            // The server's own process is no tool.
            let Some(peer) = pull.peer else { continue };
            let requester = pull.requester.clone();
            let origin = pull.inherited_from.unwrap_or(reference);
            let is_tool = self.peers.get(peer).is_some_and(Peer::is_tool);
            let is_permitted =
                self.permit_all(&requester, Action::PullOutput, std::slice::from_ref(&everybody)).is_ok();
            if !is_tool || !is_permitted || self.forwarding.has_inherited(job, origin) {
                continue;
            }
            let inherited = OutputPull {
                peer: Some(peer),
                requester: requester.clone(),
                procs: BTreeSet::from([everybody.clone()]),
                channels,
                local_id: pull.local_id,
                is_redirect: pull.is_redirect,
                is_of_spawn: true,
                inherited_from: Some(origin),
                settings: pull.settings,
                collected: Collected::default(),
            };
            self.make_room_for_job(peer, requester.uid);
            let reference = self.forwarding.next_reference();
            self.begin_pull(now, reference, inherited);
        }
    }

    /// The host has answered the spawn of a job, whose directives decide.
    pub(super) fn forward_spawned(&mut self, now: Time, spawner: PeerId, job: &Namespace, inherits: bool) {
        if self.registry.has_ended(job) {
            return;
        }
        match self.peers.proc_of(spawner).cloned() {
            _ if !inherits => self.refuse_inheritance(job),
            Some(spawner) => self.inherit_pulls(now, &spawner, job),
            None => {}
        }
    }

    /// A job refuses inheritance. Pulls that have inherited its output before end.
    fn refuse_inheritance(&mut self, job: &Namespace) {
        self.forwarding.refuse_inheritance(&self.registry, job);
        let everybody = ProcId { namespace: job.clone(), rank: Rank::Wildcard };
        self.drop_pulls(|_, pull| pull.inherited_from.is_some() && pull.procs.contains(&everybody));
    }
}
