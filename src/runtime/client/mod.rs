//! A client and a tool: the session, its link to the server, and its Gets. Knows nothing of the server's side.

pub(super) mod alone;
pub(super) mod attach;
pub(super) mod channel_session;
pub(super) mod fetched;
pub(super) mod forwarding;
pub(super) mod group_error;
pub(super) mod group_info;
pub(super) mod groups;
pub(super) mod inflated;
pub(super) mod invite;
pub(super) mod link;
pub(super) mod link_state;
pub(super) mod progress;
pub(super) mod readers;
pub(super) mod received;
pub(super) mod results;
pub(super) mod session;
pub(super) mod started_fence;
pub(super) mod tool;
pub(super) mod watch;
pub(super) mod watchers;
