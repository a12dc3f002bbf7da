//! The list of paired hosts.

use crate::{
    rows::{AgentRow, HostRow, SignedOutRow, signing_in},
    shared::{Reading, Shared},
};
use pilothouse_domain::{CapabilityFlag, HostId, Policy};
use pilothouse_store::{SignedOut, StoreError};

/// All rows, by name.
pub(crate) fn build(shared: &Shared, reads: &Reading<'_>) -> Result<Vec<HostRow>, StoreError> {
    let mut rows = Vec::new();
    for host in reads.hosts()? {
        let policy = reads.policy(host.host)?;
        let policy = policy.as_ref();
        rows.push(HostRow {
            host: host.host,
            name: host.name.clone(),
            addresses: host.addresses.clone(),
            link: shared.link_of(&host),
            last_seen_ms: host.last_seen_ms,
            waiting: reads.waiting_counts(host.host)?,
            scopes: host.scopes.clone(),
            agents: policy.map_or_else(Vec::new, |policy| {
                policy
                    .agents
                    .iter()
                    .map(|(name, agent)| AgentRow {
                        name: name.clone(),
                        family: agent.family.clone(),
                        modes: agent.modes.clone(),
                        sandboxes: agent.sandboxes.clone(),
                    })
                    .collect()
            }),
            workspaces: policy.map_or_else(Vec::new, |policy| policy.workspaces.clone()),
            default_mode: policy.map(|policy| policy.default_mode).unwrap_or_default(),
            direct: shared.direct.row(host.host),
            signed_out: reads
                .signed_out(host.host)?
                .into_iter()
                .filter_map(|found| signed_out(found, policy?))
                .collect(),
        });
    }
    rows.sort_by(|a, b| (&a.name, a.host).cmp(&(&b.name, b.host)));
    Ok(rows)
}

/// A notice, if the host still has the agent: nobody can sign in what is not there.
fn signed_out(found: SignedOut, policy: &Policy) -> Option<SignedOutRow> {
    let agent = policy.agents.get(&found.agent)?;
    let family = &agent.family;
    Some(SignedOutRow {
        family: family.clone(),
        sign_in: signing_in(family).iter().map(ToString::to_string).collect(),
        can_sign_in: agent.capabilities.has(CapabilityFlag::SignIn),
        request: found.request,
        problem: found.problem,
        agent: found.agent,
        threads: found.threads,
        thread: found.thread,
    })
}

/// By what a row is known.
pub(crate) fn key(row: &HostRow) -> HostId {
    row.host
}
