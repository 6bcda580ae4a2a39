//! Groups, and the invitations to groups.

pub(super) mod bootstraps;
pub(super) mod end_notices;
pub(super) mod given;
pub(super) mod group_table;
pub(super) mod invitations;
pub(super) mod leavers;
pub(super) mod progress;
pub(super) mod vacancies;
