//! Data that crosses nodes for one process at a time: fetched through the host, or passed to it.

use std::sync::Arc;

use super::answers::{AT_ONCE_BYTES_MAX, size_bytes};
use super::commit::about;
use super::get::GetVerdict;
use crate::gds::qualified::QUALIFIED_VALUE;
use crate::gds::{Datastore, StoredValues};
use crate::keys;
use crate::proto::{RankData, Reply};
use crate::server::interface::{
    Answer, DirectModex, DirectModexRequest, GetDirectives, HostResult, ProcessAnswer, Upcall, UpcallId,
};
use crate::server::state::{
    Asker, CallTicket, Concerned, DirectModexData, Fetch, HeldGet, HeldGetId, Pool, Purpose, RequestedData, ServerCore,
    Settlement, take_commit_number,
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
        self.ask(now, Asker::Host(ticket), RequestedData { proc, key, directives, reader: None });
    }

    /// Asks the host for data, or joins an open request.
    pub(super) fn fetch(&mut self, now: Time, mut held: HeldGet, fetch: Fetch) {
        let open = match self.config.one_fetch_per_process {
            true => self.upcalls.fetching_of(&fetch.proc),
            false => self.upcalls.fetching(&fetch),
        };
        held.shares_upcall = open != self.upcalls.fetching(&fetch);
        let upcall = match open {
            Some(upcall) => upcall,
            None if !self.may_fetch(&held.requested) => {
                return self.refuse(held.asker, Status::ERR_OUT_OF_RESOURCE);
            }
            None => {
                let directives = directives_of(&fetch, &held.requested);
                let upcall = Upcall::DirectModex(DirectModex { proc: fetch.proc.clone(), directives });
                self.ask_host(now, Purpose::DirectModex(fetch), upcall)
            }
        };
        held.via = Some(upcall);
        self.hold(now, held);
    }

    fn may_fetch(&self, requested: &RequestedData) -> bool {
        let pool = Pool { max: self.config.limits.direct_modex_max, used: self.upcalls.fetch_count() };
        match requested.user() {
            Some(uid) => self.has_share(uid, pool, 1, || self.held_gets.count_of_user(uid)),
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
        let is_known = self.registry.registered(&fetch.proc.namespace).is_some();
        let is_elsewhere = fetch.proc.rank.process().is_some() && self.registry.client(&fetch.proc).is_none();
        let mut fetched = None;
        let status = match result {
            Ok(mut entries) if !is_known => {
                take_commit_number(&mut entries);
                let (proc, is_large) = (fetch.proc.clone(), size_bytes(&entries) > AT_ONCE_BYTES_MAX);
                fetched = Some(Arc::new(DirectModexData { proc, entries: entries.into(), is_large }));
                None
            }
            Ok(entries) if is_elsewhere => self.publish_remote(&fetch.proc, entries).err(),
            Ok(_) => None,
            Err(status) => Some(status),
        };
        let (is_given, otherwise) = (status.is_none(), status.unwrap_or(Status::ERR_NOT_FOUND));
        self.held_gets.note_settled(id, Settlement { is_given, otherwise, fetched });
        let stored = about(&fetch.proc).into_iter().filter(|_| is_known);
        // A missed fence may have waited for the end of this request. Gets that wait join its request.
        if self.config.one_fetch_per_process {
            self.go_on_catching_up(now);
        }
        self.review(now, std::iter::once(Concerned::Upcall(id)).chain(stored));
    }

    /// Ends a wait for the host: with the data if it is here now. Returns the size of the answer's values for a peer,
    /// in bytes.
    pub(super) fn settle_held(&mut self, now: Time, id: HeldGetId) -> usize {
        let Some(mut held) = self.take_held(id) else { return 0 };
        let Some(settlement) = self.held_gets.settlement(&held).cloned() else { return 0 };
        let Settlement { is_given, otherwise, fetched } = settlement;
        held.via = None;
        let was_for_other_key = std::mem::take(&mut held.shares_upcall);
        held.requested.directives.refresh &= was_for_other_key && !is_given;
        let fetched = fetched.filter(|fetched| !was_for_other_key || has_named(&fetched.entries, &held.requested));
        match (self.judge(&held.asker, &held.requested), fetched) {
            (_, Some(fetched)) => return self.pass_on(held, &fetched),
            (GetVerdict::Fetch(fetch), None) if was_for_other_key => self.fetch(now, held, fetch),
            (GetVerdict::Fetch(_), None) => self.hold_for_fence(now, held, otherwise),
            (GetVerdict::Hold, None) => self.hold(now, held),
            (GetVerdict::Found, None) => return self.answer_held(held),
            (GetVerdict::Refused(status), None) => self.refuse(held.asker, status),
        }
        0
    }

    /// Answers a request with data of an unknown job, which has no place in the store. It goes to the requesters only:
    /// a large set to a request for all of it, else what the request names.
    fn pass_on(&mut self, held: HeldGet, fetched: &DirectModexData) -> usize {
        let HeldGet { asker, requested, .. } = held;
        let DirectModexData { proc, entries, is_large } = fetched;
        let name = name_among_values(&requested);
        let search_bytes = size_of_val(&**entries);
        if !has_named(entries, &requested) {
            self.refuse(asker, Status::ERR_NOT_FOUND);
            return search_bytes;
        }
        match asker {
            Asker::Peer(ticket) if *is_large && name.is_none() => {
                let posted = StoredValues::Read(Arc::clone(entries));
                let answer = ProcessAnswer { proc: proc.clone(), posted, registered: Vec::new() };
                self.outputs.answer(ticket, Answer::Process(answer));
                0
            }
            Asker::Peer(ticket) => {
                let sent = entries.iter().filter(|entry| !entry.is_removal() && (!is_large || is_named(entry, name)));
                let data = RankData { proc: proc.clone(), entries: sent.cloned().collect() };
                let answer_bytes = size_bytes(&data.entries);
                self.outputs.reply(ticket, Reply::Data(vec![data]));
                search_bytes.saturating_add(answer_bytes)
            }
            Asker::Own(ticket) => {
                self.outputs.complete(ticket, HostResult::Entries(entries.to_vec()));
                0
            }
            Asker::Host(ticket) => {
                self.refuse(Asker::Host(ticket), Status::ERR_NOT_FOUND);
                0
            }
        }
    }
}

/// The name of the requested value among those of its process; `None`: any.
fn name_among_values(requested: &RequestedData) -> Option<&str> {
    let name = match &requested.key {
        Some(_) if !requested.directives.qualifiers.is_empty() => Some(QUALIFIED_VALUE),
        key => key.as_ref().map(Key::as_str),
    };
    name.filter(|_| !requested.is_static())
}

fn is_named(entry: &Kval, name: Option<&str>) -> bool {
    !entry.is_removal() && name.is_none_or(|name| entry.key.as_str() == name)
}

/// Whether the requested value is among these of its process.
fn has_named(entries: &[Kval], requested: &RequestedData) -> bool {
    let name = name_among_values(requested);
    entries.iter().any(|entry| is_named(entry, name))
}

fn directives_of(fetch: &Fetch, requested: &RequestedData) -> Vec<Info> {
    let key =
        fetch.key.as_ref().map(|key| Info::new(Key::from_static(keys::REQUIRED_KEY.name()), Text::from(key.as_str())));
    let seconds = requested.directives.timeout.and_then(|timeout| i32::try_from(timeout.as_secs()).ok());
    let timeout = seconds.map(|seconds| Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(seconds)));
    key.into_iter().chain(timeout).collect()
}
