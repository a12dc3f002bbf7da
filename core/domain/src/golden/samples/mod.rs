//! The samples. Each `…_name` matches every variant by name, so that a new one does not compile without a sample here.

mod agents;
mod commands;
mod events;
mod kept;
mod parts;

pub(super) use self::{agents::*, commands::*, events::*, kept::*};

pub(super) const EVENTS: usize = 50;
pub(super) const REFUSALS: usize = 27;
pub(super) const PROVIDER_EVENTS: usize = 25;
pub(super) const ITEMS: usize = 20;

/// An id that is easily told from others.
macro_rules! id {
    ($type:ident, $n:literal) => {
        $type::from_bytes([$n; 16])
    };
}
use id;

/// What the samples are made of.
mod domain {
    pub(super) use crate::{
        binding::*, capability::*, command::*, effect::*, entry::*, event::*, item::*, policy::*,
        provider::*, provider_event::*, refusal::*, request::*, row::*, run::*, state::*,
        thread::*, transfer::*, *,
    };
}
