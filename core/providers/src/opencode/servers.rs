//! Servers of tools that opencode is given beside its own: added by its interface to the directory that its conversations work in,
//! so that their values stand neither in its environment nor in a file. They are there until it ends.

use super::{
    codec::Told,
    link::Link,
    outgoing::Call,
    replies::{CallError, Reply},
};
use crate::{
    mcp::{self, McpServer, McpServers},
    rpc::{self, session::lock},
};
use futures_util::future::join_all;
use pilothouse_domain::{NativeId, ProviderEvent, provider_event::NativePlace};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Mutex,
    time::Duration,
};

/// Added to the time that a server may take to start, for opencode's answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Conversations that are still to be told something.
const UNTOLD: usize = 256;

/// What is known of the servers of one opencode.
pub(super) struct Servers {
    mcp: McpServers,
    added: tokio::sync::Mutex<Added>,
    /// What is to be told in a conversation's next turn.
    untold: Mutex<BTreeMap<NativeId, Vec<String>>>,
}

/// Which servers are there.
struct Added {
    /// Those that are there were added by an earlier host.
    taken_up: bool,
    names: BTreeSet<String>,
}

impl Servers {
    /// Of a process that was started, or that was at work before (`goes_on`).
    pub(super) fn new(mcp: McpServers, goes_on: bool) -> Self {
        Self {
            mcp,
            added: tokio::sync::Mutex::new(Added {
                taken_up: goes_on,
                names: BTreeSet::new(),
            }),
            untold: Mutex::default(),
        }
    }

    /// Adds those that are not there yet, and waits until they have started or failed. Says what is wrong with any.
    pub(super) async fn add(&self, link: &Link, cwd: &Path) -> Vec<String> {
        if self.mcp.is_empty() {
            return Vec::new();
        }
        let given = self.mcp.at(cwd);
        let mut problems = given.left_out;
        let directory = cwd.display().to_string();
        let mut added = self.added.lock().await;
        let ask = Call::Servers {
            directory: directory.clone(),
        };
        let there = match link.call(ask.clone()).await {
            Ok(Reply::Servers(there)) => there,
            Ok(_) => BTreeMap::new(),
            Err(error) => {
                let each = given.servers.iter();
                problems.extend(each.map(|one| mcp::not_started(&one.name, &error.to_string())));
                return problems;
            }
        };
        if std::mem::take(&mut added.taken_up) {
            added.names = there.keys().cloned().collect();
        }
        // opencode forgets them where it reads its configuration of the directory anew.
        let missing = given
            .servers
            .iter()
            .filter(|one| !added.names.contains(&one.name) || !there.contains_key(&one.name));
        let calls = missing.map(|one| self.start(link, &directory, one));
        let failures: BTreeMap<_, _> = join_all(calls).await.into_iter().flatten().collect();
        added
            .names
            .extend(given.servers.iter().map(|one| one.name.clone()));
        let now = match link.call(ask).await {
            Ok(Reply::Servers(now)) => now,
            _ => there,
        };
        link.with_codec(|codec| codec.servers = now.keys().cloned().collect());
        for McpServer { name, .. } in &given.servers {
            let problem = failures.get(name).cloned();
            let problem = problem.or_else(|| now.get(name).cloned().flatten());
            problems.extend(problem.map(|problem| mcp::not_started(name, &problem)));
        }
        problems
    }

    /// Adds one; why opencode did not take it, if so.
    async fn start(
        &self,
        link: &Link,
        directory: &str,
        server: &McpServer,
    ) -> Option<(String, String)> {
        let call = Call::AddServer {
            directory: directory.to_owned(),
            server: server.clone(),
        };
        match link.call_within(call, mcp::START + ANSWER).await {
            Ok(_) => None,
            Err(CallError::Timeout { seconds, .. }) => Some((
                server.name.clone(),
                format!("it has not started within {seconds} s"),
            )),
            Err(error) => Some((server.name.clone(), error.to_string())),
        }
    }

    /// Has problems told in a conversation's next turn.
    pub(super) fn to_be_told(&self, session: &NativeId, problems: Vec<String>) {
        let mut untold = lock(&self.untold);
        if !problems.is_empty() && untold.len() < UNTOLD {
            untold.insert(session.clone(), problems);
        }
    }

    /// Tells them.
    pub(super) async fn tell(&self, link: &Link, session: &NativeId, turn: &NativeId) {
        let Some(problems) = lock(&self.untold).remove(session) else {
            return;
        };
        let place = NativePlace {
            thread: Some(session.clone()),
            root: None,
            turn: Some(turn.clone()),
        };
        let told = problems.into_iter().map(|problem| {
            Told::Event(ProviderEvent {
                place: place.clone(),
                kind: rpc::notice(problem),
            })
        });
        link.tell(|_| told.collect()).await;
    }
}
