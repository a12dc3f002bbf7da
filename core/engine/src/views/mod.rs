//! Views: from what is stored and what only lives in memory to the rows that a screen shows.

pub(crate) mod delivery;
pub(crate) mod hosts;
pub(crate) mod inbox;
pub(crate) mod item;
pub(crate) mod list;
pub(crate) mod threads;
pub(crate) mod timeline;
