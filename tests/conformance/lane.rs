//! A host with one agent, a paired device and the agent's scripted model: what the steps of one agent are played on.

use crate::{
    agent::Agent,
    way::{Between, Way},
};
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, CommandBody, Mode, Refusal, Row, RunId, ThreadId, TurnItem,
    capability::CapabilitySet,
    request::OptionEffect,
    thread::{Delivery, Selection},
};
use pilothouse_engine::{InboxRow, RowContent, Ticket, TicketOutcome, TimelineRow};
use pilothouse_tests::{Device, LedgerDir, World, until};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _};

/// What the steps of one agent are played on.
pub(crate) struct Lane {
    pub(crate) agent: Agent,
    // Dropped before its host.
    pub(crate) device: Device,
    between: Between,
    pub(crate) world: World,
    threads: Vec<ThreadId>,
    scripts: u32,
}

/// A message that picks a script, and is known to the model by the script's name.
pub(crate) struct Prompt {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Lane {
    pub(crate) fn start(agent: Agent, way: Way) -> Self {
        let mut world = agent.world();
        let (between, device) = Between::start(way, agent, &mut world);
        Self {
            agent,
            device,
            between,
            world,
            threads: Vec::new(),
            scripts: 0,
        }
    }

    /// A new thread, opened.
    pub(crate) fn thread(&mut self, mode: Mode) -> ThreadId {
        self.thread_on(None, mode)
    }

    /// The same, on a model.
    pub(crate) fn thread_on(&mut self, model: Option<&str>, mode: Mode) -> ThreadId {
        let selection = Selection {
            agent: self.agent.name().into(),
            model: model.map(str::to_owned),
            effort: None,
            mode,
            sandbox: None,
        };
        let body = CommandBody::ThreadCreate {
            title: format!("with {}", self.agent.name()),
            workspace: self.between.workspace(),
            selection,
        };
        let ticket = self.device.submit(None, body);
        self.device.accepted(&ticket);
        self.adopt(ticket.thread());
        ticket.thread()
    }

    /// Remembers a thread that was made otherwise.
    pub(crate) fn adopt(&mut self, thread: ThreadId) {
        self.device.watch(thread);
        self.threads.push(thread);
    }

    /// All threads so far.
    pub(crate) fn threads(&self) -> &[ThreadId] {
        &self.threads
    }

    /// A name that nothing had before.
    pub(crate) fn name(&mut self, what: &str) -> String {
        self.scripts += 1;
        format!("{what}-{}", self.scripts)
    }

    /// Registers a script; gives the message that picks it.
    pub(crate) fn script(&mut self, what: &str, steps: &[Value]) -> Prompt {
        let name = self.name(what);
        self.world.model.script(&name, &json!(steps));
        let text = format!("{what} [[script:{name}]] [[id:{name}]]");
        Prompt { name, text }
    }

    /// A script that runs one command and then says a word.
    pub(crate) fn running(&mut self, what: &str, command: &str) -> Prompt {
        let run = self.agent.run(command);
        let steps = [
            json!({"text": "I will run it.", "tools": [run]}),
            json!({"text": "After it."}),
        ];
        self.script(what, &steps)
    }

    /// Puts a program into the workspace.
    pub(crate) fn program(&self, name: &str, text: &str) {
        let path = self.world.file(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its permissions");
    }

    /// A script that says some words and then waits; the gate that lets it end.
    pub(crate) fn held(&mut self, what: &str) -> (Prompt, String) {
        let gate = self.name("gate");
        let words = "one two three four five six";
        let prompt = self.script(what, &[json!({"text": words, "hold_after_text": gate})]);
        (prompt, gate)
    }

    /// Sends it.
    pub(crate) fn say(&self, thread: ThreadId, prompt: &Prompt) {
        self.device.accepted(&self.device.say(thread, &prompt.text));
    }

    /// Waits until what was said is with the agent.
    pub(crate) fn handed_over(&self, thread: ThreadId, text: &str) {
        until("the message to be handed over", || {
            let rows = self.ledger().rows(thread);
            let said = rows.iter().find_map(|row| match row {
                Row::Message(message) if message.text.preview() == text => Some(&message.delivery),
                _ => None,
            });
            match said {
                Some(Delivery::Started) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// A run that only talks: it is the thread's run of this ordinal, and it ends well.
    pub(crate) fn talk(&mut self, thread: ThreadId, ordinal: u32) -> (Prompt, RunId) {
        let prompt = self.script("talk", &[json!({"text": "Said."})]);
        self.say(thread, &prompt);
        self.device.completed(thread, ordinal);
        let run = self.device.ended(thread, ordinal).id;
        (prompt, run)
    }

    /// Sends what has a command run, and waits for the request.
    pub(crate) fn asked(&mut self, thread: ThreadId, what: &str, command: &str) -> InboxRow {
        let prompt = self.running(what, command);
        self.say(thread, &prompt);
        self.device.asked(thread)
    }

    /// Answers a request by its first option that has this effect.
    pub(crate) fn answer(&self, row: &InboxRow, effect: OptionEffect) {
        let option = option(row, effect).unwrap_or_else(|| panic!("no {effect:?} in {row:#?}"));
        self.device.accepted(&self.device.choose(row, &option));
    }

    /// Waits until the agent's words are shown while it still speaks.
    pub(crate) fn hears(&self, thread: ThreadId, words: &str) {
        self.device.wait("words of a message that goes on", |seen| {
            let rows = &seen.timelines.get(&thread)?.rows;
            let hears = |row: &TimelineRow| {
                row.content == RowContent::AssistantMessage
                    && row.status.is_live()
                    && row.text.text.contains(words)
            };
            rows.iter().any(hears).then_some(())
        });
    }

    /// What came of a command: taken, or the host's refusal.
    pub(crate) fn taken(&self, ticket: &Ticket) -> Result<(), Refusal> {
        match self.device.outcome(ticket) {
            TicketOutcome::Accepted { .. } => Ok(()),
            TicketOutcome::Refused { refusal } => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// Submits a command to a thread.
    pub(crate) fn ask(&self, thread: ThreadId, body: CommandBody) -> Result<(), Refusal> {
        self.taken(&self.device.submit(Some(thread), body))
    }

    /// How many requests to the model held what was said under each of these names, and that none held one twice.
    pub(crate) fn held_by_model(&self, prompts: &[&Prompt]) -> Vec<u64> {
        let marks = prompts.iter().map(|prompt| {
            let mark = self.world.model.mark(&prompt.name);
            assert!(
                mark.most_in_one_request <= 1,
                "{} was delivered twice",
                prompt.name
            );
            mark.requests
        });
        marks.collect()
    }

    /// The ledger whose threads the device shows.
    pub(crate) fn ledger(&self) -> LedgerDir {
        self.between.ledger(&self.world, &self.device)
    }

    /// As [`Between::verify`].
    pub(crate) fn verify(&self) {
        self.between.verify(&self.world, &self.device);
    }

    /// As [`Between::unasked`].
    pub(crate) fn unasked(&self) -> Vec<(ThreadId, TurnItem)> {
        self.between.unasked(&self.world, &self.device)
    }

    /// As [`Between::life`].
    pub(crate) fn life(&self) -> &'static str {
        self.between.life()
    }

    /// The agent's processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.between.processes(&self.world)
    }

    /// Those that live on when their host is killed.
    pub(crate) fn outliving(&self) -> Vec<u32> {
        self.between.outliving(&self.world)
    }

    /// As [`Between::kill_agent`].
    pub(crate) fn kill_agent(&mut self) -> Vec<u32> {
        self.between.kill_agent(&self.world)
    }

    /// As [`Between::next_life`].
    pub(crate) fn next_life(&mut self) {
        let reopened = self.between.next_life(&mut self.world, &mut self.device);
        self.watch_again(reopened);
    }

    /// As [`Between::becomes_mortal`].
    pub(crate) fn becomes_mortal(&mut self) {
        let reopened = self.between.becomes_mortal(&self.world, &mut self.device);
        self.watch_again(reopened);
    }

    fn watch_again(&self, reopened: bool) {
        for &thread in self.threads.iter().filter(|_| reopened) {
            self.device.watch(thread);
        }
    }

    /// What the agent is declared to be able to, as the session of the newest thread that has one says.
    pub(crate) fn capabilities(&self) -> Option<CapabilitySet> {
        self.threads
            .iter()
            .rev()
            .find_map(|&thread| {
                self.ledger().read(|ledger| {
                    ledger.consistent(|reads| Ok(reads.snapshot(thread)?.state.session))
                })
            })
            .map(|session| session.capabilities)
    }

    /// Whether the agent is declared to be able to.
    pub(crate) fn declared(&self, flag: CapabilityFlag) -> CapabilityValue {
        self.capabilities()
            .map_or(CapabilityValue::Unknown, |set| set.value(flag))
    }

    /// All rows of a thread that are of a kind.
    pub(crate) fn rows<T>(
        &self,
        thread: ThreadId,
        kind: impl Fn(&TimelineRow) -> Option<T>,
    ) -> Vec<T> {
        self.device.whole(thread).iter().filter_map(kind).collect()
    }
}

/// The first option that has this effect. opencode has no refusal of one alone.
pub(crate) fn option(row: &InboxRow, effect: OptionEffect) -> Option<String> {
    let first = |effect| {
        let mut options = row.subject.options.iter();
        options.find(|option| option.effect == effect)
    };
    let found = match effect {
        OptionEffect::Deny => first(effect).or_else(|| first(OptionEffect::DenyAll)),
        effect => first(effect),
    }?;
    Some(found.id.as_str().to_owned())
}

/// What was said in a thread, in order.
pub(crate) fn conversation(lane: &Lane, thread: ThreadId) -> Vec<String> {
    lane.rows(thread, |row| {
        let said = matches!(
            row.content,
            RowContent::UserMessage { .. } | RowContent::AssistantMessage
        );
        said.then(|| row.text.text.clone())
    })
}
