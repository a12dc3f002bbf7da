//! The driver: the adapter contract over a [`Following`].

use super::{RemoteAdapter, following::Following, operations::TITLE};
use crate::{
    contract::{
        AgentRuntime, Compacting, Compaction, Escalation, EventSender, ForkThread, Forking,
        History, InterruptError, Interrupting, Launch, OpenError, OpenThread, RespondError,
        Response, RevertError, Reverted, Reverting, SendError, SendTurn, Steer, SteerError,
        Steering, TurnAccepted,
    },
    rpc::session::lock,
};
use futures_util::future::BoxFuture;
use pilothouse_domain::{
    Capabilities, CapabilityFlag, CapabilityValue, CommandBody, NativeId, ProviderEvent,
    command::ForkWorkspace, provider::OfferedModel, request::AnswerDelivery,
};
use std::sync::Arc;

/// A running far agent.
pub(super) struct RemoteRuntime {
    pub(super) following: Arc<Following>,
}

impl RemoteRuntime {
    pub(super) async fn begin(
        adapter: RemoteAdapter,
        launch: &Launch,
        events: EventSender,
    ) -> Self {
        Self {
            following: Following::begin(adapter, launch, events).await,
        }
    }

    fn offers(&self, flag: CapabilityFlag) -> bool {
        lock(&self.following.known).capabilities.value(flag) == CapabilityValue::Yes
    }
}

impl AgentRuntime for RemoteRuntime {
    fn capabilities(&self) -> Capabilities {
        lock(&self.following.known).capabilities.clone()
    }

    fn process_id(&self) -> Option<u32> {
        None
    }

    fn open_thread(&self, open: OpenThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        Box::pin(self.open(open))
    }

    fn send_turn(&self, send: SendTurn) -> BoxFuture<'_, Result<TurnAccepted, SendError>> {
        Box::pin(self.send(send))
    }

    fn respond(&self, response: Response) -> BoxFuture<'_, Result<AnswerDelivery, RespondError>> {
        Box::pin(self.give(response))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.following.stop())
    }

    fn signal(&self, _signal: Escalation) -> std::io::Result<()> {
        Err(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "the agent runs on another host, whose ledger takes these steps",
        ))
    }

    fn steering(&self) -> Option<&dyn Steering> {
        self.offers(CapabilityFlag::ActiveSteering)
            .then_some(self as &dyn Steering)
    }

    fn interrupting(&self) -> Option<&dyn Interrupting> {
        self.offers(CapabilityFlag::Interrupt)
            .then_some(self as &dyn Interrupting)
    }

    /// Of the far ledger, which has a history of every agent's.
    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn pending<'r>(&'r self, _expected: &'r [NativeId]) -> BoxFuture<'r, Option<Vec<NativeId>>> {
        Box::pin(std::future::ready(Some(self.following.pending())))
    }

    fn forking(&self) -> Option<&dyn Forking> {
        self.offers(CapabilityFlag::ForkThread)
            .then_some(self as &dyn Forking)
    }

    fn reverting(&self) -> Option<&dyn Reverting> {
        self.offers(CapabilityFlag::RollbackThread)
            .then_some(self as &dyn Reverting)
    }

    fn models(&self) -> Vec<OfferedModel> {
        lock(&self.following.known).models.clone()
    }

    fn compacting(&self) -> Option<&dyn Compacting> {
        self.offers(CapabilityFlag::CompactOnRequest)
            .then_some(self as &dyn Compacting)
    }
}

impl Steering for RemoteRuntime {
    fn steer(&self, steer: Steer) -> BoxFuture<'_, Result<(), SteerError>> {
        Box::pin(self.put_in(steer))
    }
}

impl Interrupting for RemoteRuntime {
    fn interrupt(
        &self,
        thread: NativeId,
        turn: NativeId,
    ) -> BoxFuture<'_, Result<(), InterruptError>> {
        Box::pin(self.stop_turn(thread, turn))
    }
}

impl History for RemoteRuntime {
    fn read(
        &self,
        thread: NativeId,
        turns: u32,
    ) -> BoxFuture<'_, Result<Vec<ProviderEvent>, OpenError>> {
        Box::pin(self.read_back(thread, turns))
    }

    /// Which message of ours one there was is known in this process only.
    fn proves_absence(&self) -> bool {
        false
    }
}

impl Forking for RemoteRuntime {
    fn fork(&self, fork: ForkThread) -> BoxFuture<'_, Result<NativeId, OpenError>> {
        Box::pin(async move {
            let not_found = || OpenError::NotFound {
                thread: fork.source.clone(),
            };
            let source = fork.source.as_str().parse().map_err(|_| not_found())?;
            let run = fork.through.as_ref().map(|turn| turn.as_str().parse());
            let run = run.transpose().map_err(|_| not_found())?;
            let body = CommandBody::ThreadFork {
                title: TITLE.to_owned(),
                source,
                run,
                workspace: ForkWorkspace::SameTree,
            };
            self.make(body).await
        })
    }
}

impl Reverting for RemoteRuntime {
    fn revert(
        &self,
        thread: NativeId,
        from: NativeId,
    ) -> BoxFuture<'_, Result<Reverted, RevertError>> {
        Box::pin(self.forget_from(thread, from))
    }
}

impl Compacting for RemoteRuntime {
    fn compact(&self, thread: NativeId) -> BoxFuture<'_, Result<Compaction, SendError>> {
        Box::pin(self.shorten(thread))
    }
}
