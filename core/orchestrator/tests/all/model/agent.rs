//! What an agent does next, and what comes of what it was told: in order mostly, late, twice and wrongly at times.

use super::{
    course::{Act, Course},
    oracle::{MODELS, Stage},
};
use crate::world::{approval, assistant, command, handshake, question, questions};
use pilothouse_domain::{
    CapabilityFlag, CapabilityValue, ItemContent, ItemStatus, NativeId, ProviderEventKind, Subject,
    provider::{OfferedModel, TurnStatus},
    provider_event::Resolution,
    request::{LostReason, RequestKind},
    run::{ErrorCode, RunError, Usage},
};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Does {
    Outcome,
    Began,
    Ended,
    Opened,
    Closed,
    Asked,
    Resolved,
    Lost,
    Ready,
    Offers,
    Said,
}

/// What the agent knows of itself.
pub(crate) struct Agent {
    /// Whether it names its turns, as codex does; ACP does not.
    pub(crate) names_turns: bool,
    /// Turns by name, with the try each belongs to.
    pub(crate) turns: Vec<(String, usize)>,
    counter: u32,
    /// What it asked last under a name of its own, with the item.
    asked: BTreeMap<(Option<String>, String), (usize, Option<String>)>,
    /// Items that have ended.
    ended: Vec<(String, bool)>,
}

pub(crate) fn failure() -> RunError {
    RunError {
        code: ErrorCode::Agent,
        message: "it failed".to_owned(),
    }
}

impl Agent {
    pub(crate) fn new(names_turns: bool) -> Self {
        Self {
            names_turns,
            turns: Vec::new(),
            counter: 0,
            asked: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    pub(crate) fn fresh(&mut self, of: &str) -> String {
        self.counter += 1;
        format!("{of}{}", self.counter)
    }
}

impl Course<'_> {
    pub(crate) fn agent_acts(&self) -> Vec<(u32, Act)> {
        let sent = self.at_stage(Stage::Sent);
        let working = self.at_stage(Stage::Working);
        let on = |is: bool, yes: u32, no: u32| if is { yes } else { no };
        let some = |is: bool, weight: u32| on(is, weight, 0);
        let open = !self.sim.oracle.items.is_empty();
        let few_items = self.sim.oracle.items.len() < 60;
        let few_asks = self.sim.oracle.asks.len() < 100;
        [
            (some(!self.sim.effects.is_empty(), 100), Does::Outcome),
            (on(sent, 60, 6), Does::Began),
            (on(working, 60, 8), Does::Ended),
            (some(few_items, on(working, 45, 8)), Does::Opened),
            (on(open, 50, 8), Does::Closed),
            (some(few_asks, on(working, 60, 8)), Does::Asked),
            (some(!self.agent.asked.is_empty(), 20), Does::Resolved),
            (5, Does::Lost),
            (4, Does::Ready),
            (some(self.sim.oracle.introduced, 4), Does::Offers),
            (6, Does::Said),
        ]
        .into_iter()
        .filter(|(weight, _)| *weight > 0)
        .map(|(weight, does)| (weight, Act::Agent(does)))
        .collect()
    }

    pub(crate) fn agent_does(&mut self, does: Does, a: u16, b: u16) {
        match does {
            Does::Outcome => self.outcome(a, b),
            Does::Began => self.began(a, b),
            Does::Ended => self.ended(a, b),
            Does::Opened => self.opened(a, b),
            Does::Closed => self.closed(a, b),
            Does::Asked => self.asked(a, b),
            Does::Resolved => self.resolved(a, b),
            Does::Lost => {
                let reason = LostReason::AgentExited;
                if a.is_multiple_of(2) {
                    self.sim.lose_runtime(reason);
                } else {
                    let detail = "gone".to_owned();
                    self.sim
                        .agent(None, ProviderEventKind::SessionEnded { reason, detail });
                }
                self.sim.oracle.lost();
            }
            Does::Ready => {
                let value = |yes| {
                    if yes {
                        CapabilityValue::Yes
                    } else {
                        CapabilityValue::No
                    }
                };
                let (steers, stops) = (a.is_multiple_of(2), a % 8 != 1);
                self.sim.agent(
                    None,
                    handshake(&[
                        (CapabilityFlag::ActiveSteering, value(steers)),
                        (CapabilityFlag::Interrupt, value(stops)),
                    ]),
                );
                self.sim.oracle.steers = steers;
                self.sim.oracle.stops = stops;
                self.sim.oracle.introduced = true;
            }
            Does::Offers => {
                let models = MODELS.map(|(name, efforts)| OfferedModel {
                    id: name.to_owned(),
                    name: name.to_uppercase(),
                    efforts: efforts.iter().map(|&effort| effort.to_owned()).collect(),
                    default_effort: None,
                    is_default: name == "big",
                    images: None,
                });
                let models = models.to_vec();
                self.sim
                    .agent(None, ProviderEventKind::ModelsOffered { models });
                self.sim.oracle.offers = true;
            }
            Does::Said => self.said(a),
        }
        let over = matches!(
            self.sim.oracle.work.as_ref().map(|work| work.stage),
            Some(Stage::Over(..))
        );
        self.between = over && b.is_multiple_of(4);
        if !self.between {
            self.sim.settle();
        }
        self.sim.check();
    }

    /// The turn that a thing of the agent's is said to belong to, with its try; the outer `None` is none at all.
    fn somewhere(&self, n: u16) -> Option<(Option<String>, Option<usize>)> {
        let oracle = &self.sim.oracle;
        let work = oracle.work.as_ref();
        if !self.agent.names_turns {
            let last = |run: usize| oracle.tries.iter().rposition(|t| t.run == run);
            let owner = work.map(|work| work.attempt).or(oracle.last.and_then(last));
            return Some((None, owner));
        }
        let now = work.and_then(|work| work.turn.clone());
        let turns = &self.agent.turns;
        let (name, owner) = match (now, n % 8) {
            (Some(now), 1..) => turns.iter().rfind(|(name, _)| *name == now)?,
            _ => turns.get(usize::from(n / 8) % turns.len().max(1))?,
        };
        Some((Some(name.clone()), Some(*owner)))
    }

    fn began(&mut self, a: u16, b: u16) {
        if !self.agent.names_turns {
            self.sim.agent(None, ProviderEventKind::TurnStarted);
            if self.at_stage(Stage::Sent) {
                self.sim.oracle.taken_up(None);
            }
            return;
        }
        let known = self
            .agent
            .turns
            .get(usize::from(a) % self.agent.turns.len().max(1));
        if let (0, Some((name, _))) = (b % 6, known.cloned()) {
            // Said again.
            self.sim.agent(Some(&name), ProviderEventKind::TurnStarted);
            return;
        }
        let name = self.agent.fresh("U");
        self.sim.agent(Some(&name), ProviderEventKind::TurnStarted);
        self.first_sign(&name);
    }

    /// The first that is heard of a turn.
    fn first_sign(&mut self, name: &str) {
        let oracle = &mut self.sim.oracle;
        match oracle.work.as_ref().map(|work| (work.stage, work.attempt)) {
            None => oracle.elsewhere(name),
            Some((Stage::Sent, _)) => oracle.taken_up(Some(name)),
            // One beside the turn that runs.
            Some(_) => {}
        }
        let attempt = oracle.work.as_ref().map(|work| work.attempt);
        let attempt = attempt.expect("something is at work now");
        self.agent.turns.push((name.to_owned(), attempt));
    }

    fn ended(&mut self, a: u16, b: u16) {
        let status = match a % 8 {
            0..4 => TurnStatus::Completed,
            4..6 => TurnStatus::Interrupted,
            _ => TurnStatus::Failed,
        };
        let kind = ProviderEventKind::TurnEnded {
            status,
            error: (status == TurnStatus::Failed).then(failure),
        };
        if !self.agent.names_turns {
            self.sim.agent(None, kind);
            if self.sim.oracle.work.is_some() {
                if self.at_stage(Stage::Sent) {
                    self.sim.oracle.taken_up(None);
                }
                self.sim.oracle.over(status, false);
            }
            return;
        }
        let now = self
            .sim
            .oracle
            .work
            .as_ref()
            .and_then(|work| work.turn.clone());
        let known = self
            .agent
            .turns
            .get(usize::from(b / 8) % self.agent.turns.len().max(1));
        let (name, is_new) = match (b % 8, now, known.cloned()) {
            (2.., Some(now), _) => (now, false),
            (1.., _, Some((name, _))) => (name, false),
            _ => (self.agent.fresh("U"), true),
        };
        self.sim.agent(Some(&name), kind);
        if is_new {
            self.first_sign(&name);
        }
        let work = self.sim.oracle.work.as_ref();
        if work.is_some_and(|work| work.stage == Stage::Working && work.turn == Some(name)) {
            self.sim.oracle.over(status, false);
        }
    }

    fn opened(&mut self, a: u16, b: u16) {
        let Some((turn, owner)) = self.somewhere(a) else {
            return;
        };
        let (native, tool) = (self.agent.fresh("i"), b.is_multiple_of(2));
        let content = if tool {
            command("make", "")
        } else {
            assistant("")
        };
        let item = NativeId(native.clone());
        let kind = if tool && b.is_multiple_of(8) {
            // Text for an item that nobody announced.
            ProviderEventKind::ItemAppended {
                item,
                text: "more".to_owned(),
                shape: Box::new(content),
            }
        } else {
            ProviderEventKind::ItemOpened {
                item,
                content,
                client_id: None,
            }
        };
        self.sim.agent(turn.as_deref(), kind);
        if let Some(owner) = owner {
            self.sim.oracle.opened(&native, owner, tool);
        }
    }

    fn closed(&mut self, a: u16, b: u16) {
        let Some((turn, owner)) = self.somewhere(a) else {
            return;
        };
        let open = &self.sim.oracle.items;
        let open = open.get(usize::from(a) % open.len().max(1));
        let open = open.map(|item| (item.native.clone(), item.tool));
        let ended = self
            .agent
            .ended
            .get(usize::from(a) % self.agent.ended.len().max(1));
        let (native, tool) = match (b % 8, open, ended.cloned()) {
            (2.., Some(open), _) => open,
            (1.., _, Some(ended)) => ended,
            _ => (self.agent.fresh("i"), b % 16 < 8),
        };
        let says = !tool && b % 64 < 48;
        let content: ItemContent = match (tool, says) {
            (true, _) => command("make", "done\n"),
            (false, true) => assistant("Hello"),
            (false, false) => assistant(" \n"),
        };
        let status = match a % 4 {
            0 => ItemStatus::Failed,
            _ => ItemStatus::Completed,
        };
        let item = NativeId(native.clone());
        self.sim.agent(
            turn.as_deref(),
            ProviderEventKind::ItemClosed {
                item,
                status,
                content,
                client_id: None,
            },
        );
        let is_new = !self.agent.ended.iter().any(|(ended, _)| *ended == native)
            && self.sim.item(&native).is_some();
        let unheard = self
            .sim
            .oracle
            .items
            .iter()
            .all(|item| item.native != native);
        let opened_now = owner.filter(|_| unheard && is_new);
        let heard_before = unheard && self.is_heard(&native);
        let of = opened_now.filter(|_| !heard_before);
        let says = says && status == ItemStatus::Completed;
        self.sim.oracle.closed(&native, of, says);
        if self.sim.item(&native).is_some() && is_new {
            self.agent.ended.push((native, tool));
        }
    }

    /// Whether an item was closed for the agent, at a turn's end or a runtime's loss, before the agent said its end.
    fn is_heard(&self, native: &str) -> bool {
        let number = native.trim_start_matches('i').parse::<u32>().unwrap_or(0);
        number != self.agent.counter
    }

    fn subject(kind: RequestKind, variant: u16) -> Subject {
        match kind {
            RequestKind::UserInput => {
                let labels: &[&str] = if variant == 0 {
                    &["Red"]
                } else {
                    &["Red", "Blue"]
                };
                questions(vec![question("q1", labels, false, false)])
            }
            _ => approval(if variant == 0 { "make" } else { "make clean" }),
        }
    }

    fn asked(&mut self, a: u16, b: u16) {
        let Some((turn, owner)) = self.somewhere(a) else {
            return;
        };
        let (mut turn, mut owner) = (turn, owner);
        let mut native = format!("{}", a % 5);
        // What is open is asked again often: most rules of asking are about that.
        let open: Vec<_> = self
            .agent
            .asked
            .iter()
            .filter(|(_, (ask, _))| self.sim.oracle.asks[*ask].is_open())
            .map(|(key, _)| key.clone())
            .collect();
        if a.is_multiple_of(3)
            && let Some(key) = open.get(usize::from(b) % open.len().max(1))
        {
            (turn, native) = key.clone();
            let named = self
                .agent
                .turns
                .iter()
                .find(|(name, _)| Some(name) == turn.as_ref());
            owner = named.map_or(owner, |(_, of)| Some(*of));
        }
        let key = (turn.clone(), native.clone());
        let before = self.agent.asked.get(&key).cloned();
        let kind = match &before {
            Some((ask, _)) => self.sim.oracle.asks[*ask].kind,
            None if b.is_multiple_of(3) => RequestKind::UserInput,
            None => RequestKind::Command,
        };
        let item = match &before {
            Some((_, item)) => item.clone(),
            None if kind == RequestKind::Command && b.is_multiple_of(4) && owner.is_some() => {
                Some(self.agent.fresh("i"))
            }
            None => None,
        };
        let subject = match &before {
            Some((ask, _)) if b % 4 > 1 => self.sim.oracle.asks[*ask].subject.clone(),
            _ => Self::subject(kind, u16::from(b % 8 > 4)),
        };
        self.sim.agent(
            turn.as_deref(),
            ProviderEventKind::RequestOpened {
                request: NativeId(native),
                item: item.as_deref().map(NativeId::from),
                kind,
                subject: Box::new(subject.clone()),
                unknown_fields: false,
            },
        );
        if let (None, Some(item), Some(owner)) = (&before, &item, owner) {
            // A command that nobody announced.
            self.sim.oracle.opened(item, owner, true);
        }
        let is_new = match before {
            Some((ask, _)) => self.sim.oracle.asked_again(ask, &subject),
            None => true,
        };
        if is_new {
            let ask = self.sim.oracle.asked(owner, kind, subject);
            self.agent.asked.insert(key, (ask, item));
        }
    }

    fn resolved(&mut self, a: u16, b: u16) {
        let oracle = &self.sim.oracle;
        let all: Vec<_> = self.agent.asked.iter().collect();
        let open: Vec<_> = all
            .iter()
            .filter(|(_, (ask, _))| oracle.asks[*ask].is_open())
            .copied()
            .collect();
        let from = if open.is_empty() || b.is_multiple_of(8) {
            all
        } else {
            open
        };
        let ((turn, native), (ask, _)) = from[usize::from(a) % from.len()];
        let (turn, native, ask) = (turn.clone(), native.clone(), *ask);
        let resolution = match b % 3 {
            0 => Resolution::Answered,
            1 => Resolution::Withdrawn,
            _ => Resolution::Unsaid,
        };
        self.sim.agent(
            turn.as_deref(),
            ProviderEventKind::RequestClosed {
                request: NativeId(native),
                resolution,
            },
        );
        self.sim.oracle.resolved(ask, resolution);
    }

    /// Something that is shown and changes nothing.
    fn said(&mut self, a: u16) {
        let turn = self.somewhere(a).and_then(|(turn, _)| turn);
        if self.agent.names_turns && turn.is_none() {
            return;
        }
        let kind = match a % 4 {
            0 => ProviderEventKind::Error {
                error: failure(),
                will_retry: true,
            },
            1 => ProviderEventKind::Unknown {
                label: "x".to_owned(),
                raw: "{}".to_owned(),
            },
            2 => ProviderEventKind::Usage {
                usage: Usage::default(),
            },
            _ => ProviderEventKind::ThreadBound,
        };
        self.sim.agent(turn.as_deref(), kind);
    }
}
