//! Agents that are driven from this device.

use super::Device;
use crate::client::failure::{Code, Failure};
use pilothouse_domain::HostId;
use pilothouse_engine::{DirectAgent, DirectChange, DirectError};

impl Device {
    /// Drives an agent's server from this device.
    pub(crate) fn add_direct(&self, agent: &DirectAgent, token: &str) -> Result<HostId, Failure> {
        self.core
            .add_direct(agent, token)
            .map_err(|error| direct_failure("adding it", &error))
    }

    /// Says something of an agent anew that is driven from this device.
    pub(crate) fn change_direct(
        &self,
        host: HostId,
        change: &DirectChange,
        token: Option<&str>,
    ) -> Result<(), Failure> {
        self.core
            .change_direct(host, change, token)
            .map_err(|error| direct_failure("changing it", &error))
    }

    /// Takes an agent away that is driven from this device.
    pub(crate) fn remove_direct(&self, host: HostId) -> Result<(), Failure> {
        self.core
            .remove_direct(host)
            .map_err(|error| direct_failure("removing it", &error))
    }
}

fn direct_failure(doing: &str, error: &DirectError) -> Failure {
    Failure::new(Code::Error, format!("{doing}: {error}")).next(error.next_step())
}
