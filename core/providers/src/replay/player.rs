//! Plays the turns of a recording to a client that is another one than was recorded. Sans-I/O: frames in, frames out, time
//! given.

use super::recording::{Family, Recording, Step};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// The longest pause between two frames, ms, however long it was.
const LONGEST_PAUSE_MS: u64 = 1000;
/// What the agent says when an answer is another one than was recorded.
const NOT_RECORDED: &str =
    "(This is a recording, and it only knows the other answer. It ends here; nothing was done.)";

/// A recording that is being played.
pub struct Player {
    recording: Arc<Recording>,
    life: String,
    speed: u32,
    /// By their ids as the client knows them.
    conversations: BTreeMap<String, Conversation>,
    /// Numbers of our requests.
    asked: u64,
    /// Plays of any turn, so that none has the ids of another.
    plays: u64,
    out: Vec<Value>,
}

#[derive(Default)]
struct Conversation {
    next_turn: usize,
    playing: Option<Playing>,
}

/// A turn that goes on.
struct Playing {
    steps: VecDeque<Step>,
    due_ms: u64,
    /// What tells this play's ids from those of others.
    suffix: String,
    /// The client's call that started it.
    call: Value,
    /// Its turn's id, where the protocol has ids of turns.
    turn: String,
    /// The person's words, and the client's name for them.
    text: String,
    client_id: Value,
    /// Requests that were sent: recorded id → ours and the recorded frame.
    asked: BTreeMap<String, (u64, Value)>,
    /// Answers that came, by our id.
    answers: BTreeMap<u64, Value>,
}

impl Player {
    /// A player whose ids hold `life`, so that those of several lives differ; `speed` times faster than recorded.
    pub fn new(recording: Recording, life: &str, speed: u32) -> Self {
        Self {
            recording: Arc::new(recording),
            life: life.to_owned(),
            speed: speed.max(1),
            conversations: BTreeMap::new(),
            asked: 0,
            plays: 0,
            out: Vec::new(),
        }
    }

    /// When there is something to take; `None` while the client is waited for.
    pub fn due_ms(&self) -> Option<u64> {
        let due = |conversation: &Conversation| conversation.playing.as_ref()?.due_ms();
        self.conversations.values().filter_map(due).min()
    }

    /// What is to be sent by now, in order.
    pub fn take(&mut self, now_ms: u64) -> Vec<Value> {
        let names: Vec<String> = self.conversations.keys().cloned().collect();
        for name in names {
            self.go_on(&name, now_ms, false);
        }
        std::mem::take(&mut self.out)
    }

    /// Takes a frame of the client.
    pub fn receive(&mut self, frame: &Value, now_ms: u64) {
        let id = frame.get("id");
        match (frame["method"].as_str(), id) {
            (Some(method), Some(id)) => {
                let answer = self.call(method, id, &frame["params"], now_ms);
                match answer {
                    Some(Ok(result)) => self.answer(id, "result", result),
                    Some(Err(problem)) => {
                        let error = json!({"code": -32601, "message": problem});
                        self.answer(id, "error", error);
                    }
                    None => {}
                }
            }
            (Some("session/cancel"), None) => {
                let name = text(&frame["params"]["sessionId"]);
                self.stop(&name);
            }
            (None, Some(id)) => {
                for conversation in self.conversations.values_mut() {
                    if let (Some(playing), Some(id)) = (&mut conversation.playing, id.as_u64())
                        && playing.asked.values().any(|(ours, _)| *ours == id)
                    {
                        playing.answers.entry(id).or_insert_with(|| frame.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, id: &Value, kind: &str, value: Value) {
        let mut frame = json!({"id": id});
        if self.recording.family == Family::Acp {
            frame["jsonrpc"] = "2.0".into();
        }
        frame[kind] = value;
        self.out.push(frame);
    }

    /// Answers a call; `None` if its answer comes with the turn.
    fn call(
        &mut self,
        method: &str,
        id: &Value,
        params: &Value,
        now_ms: u64,
    ) -> Option<Result<Value, String>> {
        let recorded = |method: &str| self.recording.results.get(method).cloned();
        Some(match method {
            "turn/start" | "session/prompt" => {
                return self.start(id, params, now_ms).map(Err);
            }
            "thread/start" | "session/new" => {
                let name = format!(
                    "{}~{}.{}",
                    self.recording.conversation,
                    self.life,
                    self.conversations.len()
                );
                Ok(self.opened(&name, params))
            }
            "thread/resume" => Ok(self.opened(&text(&params["threadId"]), params)),
            "session/load" | "session/resume" => {
                let mut result = self.opened(&text(&params["sessionId"]), params);
                if let Some(result) = result.as_object_mut() {
                    result.remove("sessionId");
                }
                Ok(result)
            }
            "thread/read" => {
                let mut result = self.opened(&text(&params["threadId"]), params);
                Ok(json!({"thread": result["thread"].take()}))
            }
            "turn/interrupt" => {
                self.stop(&text(&params["threadId"]));
                Ok(json!({}))
            }
            "turn/steer" => Err("a recording cannot be steered".to_owned()),
            // A recording remembers nothing of what was played.
            "thread/turns/list" | "thread/items/list" => {
                Ok(json!({"data": [], "nextCursor": null, "backwardsCursor": null}))
            }
            "model/list" => {
                Ok(recorded(method).unwrap_or_else(|| json!({"data": [], "nextCursor": null})))
            }
            "account/read" => {
                Ok(json!({"account": null, "userId": null, "requiresOpenaiAuth": false}))
            }
            _ if method.starts_with("session/set") => {
                Ok(recorded(method).unwrap_or_else(|| json!({})))
            }
            _ => recorded(method).ok_or_else(|| format!("`{method}` is not in the recording")),
        })
    }

    /// A conversation as it was recorded, under the client's name for it and in its place.
    fn opened(&mut self, name: &str, params: &Value) -> Value {
        self.conversations.entry(name.to_owned()).or_default();
        let recording = Arc::clone(&self.recording);
        let results = &recording.results;
        let result = ["thread/start", "thread/resume", "session/new"]
            .iter()
            .find_map(|method| results.get(*method));
        let mut result = self.named(result.unwrap_or(&Value::Null), name, "");
        for field in ["cwd", "approvalPolicy", "approvalsReviewer"] {
            if let (Some(there), Some(wanted)) = (result.get_mut(field), params.get(field)) {
                *there = wanted.clone();
            }
        }
        if result["thread"].is_object() {
            result["thread"]["turns"] = json!([]);
            result["thread"]["status"] = json!({"type": "idle"});
        }
        result
    }

    /// Starts the next turn; the reason if that cannot be.
    fn start(&mut self, call: &Value, params: &Value, now_ms: u64) -> Option<String> {
        let (name, words) = match self.recording.family {
            Family::Codex => ("threadId", "input"),
            Family::Acp => ("sessionId", "prompt"),
        };
        let name = text(&params[name]);
        // What follows a turn's end is not waited for.
        self.go_on(&name, now_ms, true);
        let conversation = self.conversations.entry(name).or_default();
        if conversation.playing.is_some() {
            return Some("a turn is being played already".to_owned());
        }
        let words = params[words].as_array().into_iter().flatten();
        let words: Vec<&str> = words.filter_map(|part| part["text"].as_str()).collect();
        let turn = &self.recording.turns[conversation.next_turn % self.recording.turns.len()];
        conversation.next_turn += 1;
        self.plays += 1;
        let suffix = format!("~{}.{}", self.life, self.plays);
        let native = turn.iter().find_map(|step| match step {
            Step::Sent { frame, .. } => ["/result/turn/id", "/params/turn/id"]
                .iter()
                .find_map(|place| frame.pointer(place)?.as_str()),
            Step::Answered { .. } => None,
        });
        conversation.playing = Some(Playing {
            steps: turn.iter().cloned().collect(),
            due_ms: now_ms,
            turn: format!("{}{suffix}", native.unwrap_or_default()),
            suffix,
            call: call.clone(),
            text: words.join("\n"),
            client_id: params["clientUserMessageId"].clone(),
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
        });
        None
    }

    /// Sends what is due; with `to_the_end` everything, unless the client is waited for or its call was not answered.
    fn go_on(&mut self, name: &str, now_ms: u64, to_the_end: bool) {
        while let Some(mut playing) = self
            .conversations
            .get_mut(name)
            .and_then(|one| one.playing.take())
        {
            let family = self.recording.family;
            let hurried = to_the_end
                && !playing
                    .steps
                    .iter()
                    .any(|step| is_terminal(family, &playing, step));
            let step = match playing.steps.front() {
                None => continue,
                Some(Step::Sent { .. }) if playing.due_ms > now_ms && !hurried => None,
                Some(Step::Answered { request, .. }) if playing.answer_to(request).is_none() => {
                    None
                }
                Some(_) => playing.steps.pop_front(),
            };
            let Some(step) = step else {
                self.put_back(name, playing);
                return;
            };
            match step {
                Step::Sent { frame, .. } => {
                    let frame = self.played(frame, name, &mut playing);
                    self.out.push(frame);
                }
                Step::Answered { request, answer } => {
                    if let Some((frame, given)) = playing.answer_to(&request)
                        && denies(frame, given) != denies(frame, &answer)
                    {
                        self.farewell(name, &request, &playing);
                        continue;
                    }
                    playing.due_ms = now_ms;
                }
            }
            if let Some(Step::Sent { after_ms, .. }) = playing.steps.front() {
                let pause = (after_ms / u64::from(self.speed)).min(LONGEST_PAUSE_MS);
                playing.due_ms =
                    playing.due_ms.max(now_ms.saturating_sub(LONGEST_PAUSE_MS)) + pause;
            }
            self.put_back(name, playing);
        }
    }

    fn put_back(&mut self, name: &str, playing: Playing) {
        if let Some(conversation) = self.conversations.get_mut(name) {
            conversation.playing = Some(playing);
        }
    }

    /// A recorded frame with the names of this play.
    fn played(&mut self, frame: Value, name: &str, playing: &mut Playing) -> Value {
        let mut played = self.named(&frame, name, &playing.suffix);
        match (frame.get("method").is_some(), frame.get("id")) {
            (true, Some(id)) => {
                let ours = self.asked;
                self.asked += 1;
                played["id"] = ours.into();
                playing.asked.insert(id.to_string(), (ours, frame.clone()));
            }
            (false, Some(_)) => played["id"] = playing.call.clone(),
            (_, None) => {}
        }
        let resolved = frame["params"].get("requestId").map(Value::to_string);
        if let Some((ours, _)) = resolved.and_then(|id| playing.asked.get(&id)) {
            played["params"]["requestId"] = (*ours).into();
        }
        if let Some(item) = played.pointer_mut("/params/item")
            && item["type"] == "userMessage"
        {
            item["clientId"] = playing.client_id.clone();
            item["content"] = json!([{"type": "text", "text": playing.text, "text_elements": []}]);
        }
        played
    }

    /// A value with ids of this play in place of the recorded ones.
    fn named(&self, value: &Value, name: &str, suffix: &str) -> Value {
        match value {
            Value::String(text) if *text == self.recording.conversation => name.into(),
            Value::String(text) if !suffix.is_empty() && self.recording.ids.contains(text) => {
                format!("{text}{suffix}").into()
            }
            Value::Array(values) => {
                let values = values.iter().map(|value| self.named(value, name, suffix));
                values.collect()
            }
            Value::Object(object) => {
                let fields = object.iter();
                let fields =
                    fields.map(|(key, value)| (key.clone(), self.named(value, name, suffix)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    /// Ends a turn as the agent does when it is told to stop.
    fn stop(&mut self, name: &str) {
        let Some(playing) = self
            .conversations
            .get_mut(name)
            .and_then(|one| one.playing.take())
        else {
            return;
        };
        self.end(name, &playing, "interrupted", "cancelled");
    }

    /// Ends a turn for which nothing is recorded any more, with a word about it.
    fn farewell(&mut self, name: &str, request: &str, playing: &Playing) {
        let suffix = &playing.suffix;
        match self.recording.family {
            Family::Codex => {
                let place = |mut params: Value| {
                    params["threadId"] = name.into();
                    params["turnId"] = playing.turn.clone().into();
                    params
                };
                if let Some((ours, _)) = playing.asked.get(request) {
                    let params = json!({"threadId": name, "requestId": ours});
                    self.out
                        .push(json!({"method": "serverRequest/resolved", "params": params}));
                }
                let item = json!({"type": "agentMessage", "id": format!("farewell{suffix}"), "text": NOT_RECORDED});
                for method in ["item/started", "item/completed"] {
                    let params = place(json!({"item": item}));
                    self.out.push(json!({"method": method, "params": params}));
                }
            }
            Family::Acp => {
                let update = json!({
                    "sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": NOT_RECORDED},
                });
                let params = json!({"sessionId": name, "update": update});
                self.out
                    .push(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
            }
        }
        self.end(name, playing, "completed", "end_turn");
    }

    fn end(&mut self, name: &str, playing: &Playing, codex: &str, acp: &str) {
        match self.recording.family {
            Family::Codex => {
                let turn = playing.turn.clone();
                let turn = json!({
                    "id": turn, "rootTurnId": turn, "items": [], "itemsView": "notLoaded", "status": codex,
                    "error": null, "startedAt": null, "completedAt": null, "durationMs": null,
                });
                let status = json!({"threadId": name, "status": {"type": "idle"}});
                self.out
                    .push(json!({"method": "thread/status/changed", "params": status}));
                let params = json!({"threadId": name, "turn": turn});
                self.out
                    .push(json!({"method": "turn/completed", "params": params}));
            }
            Family::Acp => self.answer(&playing.call.clone(), "result", json!({"stopReason": acp})),
        }
    }
}

impl Playing {
    fn due_ms(&self) -> Option<u64> {
        match self.steps.front()? {
            Step::Sent { .. } => Some(self.due_ms),
            Step::Answered { request, .. } => self.answer_to(request).map(|_| 0),
        }
    }

    /// The recorded request and the answer that came to it.
    fn answer_to(&self, request: &str) -> Option<(&Value, &Value)> {
        let (ours, frame) = self.asked.get(request)?;
        Some((frame, self.answers.get(ours)?))
    }
}

/// Whether a step answers the client's call or ends the turn.
fn is_terminal(family: Family, playing: &Playing, step: &Step) -> bool {
    let Step::Sent { frame, .. } = step else {
        return true;
    };
    match family {
        Family::Codex => frame["method"] == "turn/completed" || frame.get("method").is_none(),
        Family::Acp => frame.get("method").is_none() && !playing.call.is_null(),
    }
}

/// Whether an answer to a recorded request says no.
fn denies(request: &Value, answer: &Value) -> bool {
    let Some(result) = answer.get("result") else {
        return true;
    };
    match &result["decision"] {
        Value::String(word) => {
            return matches!(word.as_str(), "decline" | "cancel" | "denied" | "abort");
        }
        Value::Object(decision) => return decision.contains_key("denied"),
        _ => {}
    }
    let outcome = &result["outcome"];
    match outcome["outcome"].as_str() {
        Some("selected") => {
            let options = request["params"]["options"]
                .as_array()
                .into_iter()
                .flatten();
            let mut chosen = options.filter(|option| option["optionId"] == outcome["optionId"]);
            chosen.any(|option| {
                option["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.starts_with("reject"))
            })
        }
        Some(_) => true,
        None => result["action"]
            .as_str()
            .is_some_and(|action| action != "accept"),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
