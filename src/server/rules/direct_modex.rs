//! Data that crosses nodes for one process at a time: fetched through the host, or passed to it.

use super::get::GetVerdict;
use crate::gds::Datastore;
use crate::gds::qualified::QUALIFIED_VALUE;
use crate::keys;
use crate::proto::{RankData, Reply};
use crate::server::interface::{DirectModex, DirectModexRequest, GetDirectives, HostResult, Upcall, UpcallId};
use crate::server::state::{
    Asker, CallTicket, Fetch, Pool, Purpose, ServerCore, WaitId, Waiter, Wanted, take_commit_number,
};
use crate::types::{Info, Key, Kval, Status, Text, Time, Value};

impl<S: Datastore> ServerCore<S> {
    /// The host asks for a local process's data on behalf of another node.
    pub(in crate::server) fn direct_modex_request(
        &mut self,
        now: Time,
        ticket: CallTicket,
        request: DirectModexRequest,
    ) {
        let DirectModexRequest { proc, key, timeout } = request;
        let directives = GetDirectives { timeout, ..GetDirectives::default() };
        self.ask(now, Asker::Host(ticket), Wanted { proc, key, directives, reader: None });
    }

    /// Asks the host for data, or joins an open request for the same data.
    pub(super) fn fetch(&mut self, now: Time, mut waiter: Waiter, fetch: Fetch) {
        let upcall = match self.upcalls.fetching(&fetch) {
            Some(upcall) => upcall,
            None if !self.may_fetch(&waiter.wanted) => {
                return self.refuse(waiter.asker, Status::ERR_OUT_OF_RESOURCE);
            }
            None => {
                let directives = directives_of(&fetch, &waiter.wanted);
                let upcall = Upcall::DirectModex(DirectModex { proc: fetch.proc.clone(), directives });
                self.ask_host(now, Purpose::DirectModex(fetch), upcall)
            }
        };
        waiter.via = Some(upcall);
        self.hold(now, waiter);
    }

    fn may_fetch(&self, wanted: &Wanted) -> bool {
        let pool = Pool { max: self.config.limits.direct_modex_max, used: self.upcalls.fetch_count() };
        match wanted.user() {
            Some(uid) => self.has_share(uid, pool, 1, || self.waiting.count_of_user(uid)),
            None => pool.used < pool.max,
        }
    }

    /// The host has fetched data, or has failed to. The data is published before any reply.
    pub(in crate::server) fn complete_fetch(
        &mut self,
        now: Time,
        id: UpcallId,
        fetch: &Fetch,
        result: Result<Vec<Kval>, Status>,
    ) {
        let waits = self.waiting.on_upcall(id);
        let is_known = self.registry.registered(&fetch.proc.namespace).is_some();
        let is_elsewhere = fetch.proc.rank.process().is_some() && self.registry.client(&fetch.proc).is_none();
        let status = match result {
            Ok(mut entries) if !is_known => {
                take_commit_number(&mut entries);
                return self.pass_on(&waits, fetch, &entries);
            }
            Ok(entries) if is_elsewhere => self.publish_remote(&fetch.proc, entries).err(),
            Ok(_) => None,
            Err(status) => Some(status),
        };
        for wait in waits {
            self.settle_wait(now, wait, status.unwrap_or(Status::ERR_NOT_FOUND));
        }
        self.review_target(now, &fetch.proc);
    }

    /// Ends a wait for the host: with the data if it is here now, else with `otherwise`.
    fn settle_wait(&mut self, now: Time, id: WaitId, otherwise: Status) {
        let Some(mut waiter) = self.take_wait(id) else { return };
        waiter.via = None;
        waiter.wanted.directives.refresh = false;
        match self.judge(&waiter.asker, &waiter.wanted) {
            GetVerdict::Fetch(_) => self.refuse(waiter.asker, otherwise),
            GetVerdict::Hold => self.hold(now, waiter),
            GetVerdict::Found => self.answer(waiter.asker, &waiter.wanted),
            GetVerdict::Refused(status) => self.refuse(waiter.asker, status),
        }
    }

    /// Data of an unknown job has no place in the store: it goes to the requesters only.
    fn pass_on(&mut self, waits: &[WaitId], fetch: &Fetch, entries: &[Kval]) {
        let has = |wanted: &Wanted| match &wanted.key {
            Some(key) if !wanted.is_static() => {
                let key = if wanted.directives.qualifiers.is_empty() { key.as_str() } else { QUALIFIED_VALUE };
                entries.iter().any(|entry| entry.key.as_str() == key)
            }
            _ => !entries.is_empty(),
        };
        for &wait in waits {
            let Some(waiter) = self.take_wait(wait) else { continue };
            match waiter.asker {
                Asker::Peer(ticket) if has(&waiter.wanted) => {
                    let data = RankData { proc: fetch.proc.clone(), entries: entries.to_vec() };
                    self.outputs.reply(ticket, Reply::Data(vec![data]));
                }
                Asker::Own(ticket) if has(&waiter.wanted) => {
                    self.outputs.complete(ticket, HostResult::Entries(entries.to_vec()));
                }
                asker => self.refuse(asker, Status::ERR_NOT_FOUND),
            }
        }
    }
}

fn directives_of(fetch: &Fetch, wanted: &Wanted) -> Vec<Info> {
    let key =
        fetch.key.as_ref().map(|key| Info::new(Key::from_static(keys::REQUIRED_KEY.name()), Text::from(key.as_str())));
    let seconds = wanted.directives.timeout.and_then(|timeout| i32::try_from(timeout.as_secs()).ok());
    let timeout = seconds.map(|seconds| Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(seconds)));
    key.into_iter().chain(timeout).collect()
}
