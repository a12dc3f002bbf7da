//! Requests: each has at most one effective answer, the one that was taken, and never that of another request.

use super::{Effect, Oracle, all_rows};
use crate::{
    asked::request_name,
    journal::{Arrival, Given},
    stage::For,
    story::Choice,
};
use pilothouse_domain::Outcome;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

impl Oracle<'_> {
    pub(super) fn requests(&mut self) {
        let mut taken: BTreeMap<String, Vec<Choice>> = BTreeMap::new();
        let mut untold: BTreeSet<String> = BTreeSet::new();
        // When each was first answered.
        let mut first: BTreeMap<String, u64> = BTreeMap::new();
        for sent in self.stage.sent.clone() {
            let For::Answer { request, choice } = &sent.what else {
                continue;
            };
            let at = first.entry(request.clone()).or_insert(sent.at);
            *at = sent.at.min(*at);
            match self.outcome(&sent) {
                Some((_, Some(Outcome::Accepted { .. }))) => {
                    taken.entry(request.clone()).or_default().push(*choice);
                }
                Some((_, Some(Outcome::Refused { .. }))) => self.found.refused += 1,
                Some((_, None)) => {}
                None => {
                    untold.insert(request.clone());
                }
            }
        }
        let dump = self.dumps[0].clone();
        let mut shown: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        for (_, row) in all_rows(&dump) {
            let subject = row["request"]["subject"].as_str().unwrap_or_default();
            if let Some(name) = request_name(subject) {
                shown.entry(name).or_default().push(&row["request"]);
            }
        }
        let asked = self.journal.asked();
        for (request, (at, pid)) in &asked {
            let answers = self.journal.answers(request);
            if answers.len() > 1 {
                self.found.wrong(
                    "answer",
                    format!(
                        "{request} was answered {} times: {answers:?}",
                        answers.len()
                    ),
                );
            }
            if self.journal.effects(request) > 1 {
                self.found
                    .wrong("duplicated", format!("{request} was done twice"));
            }
            for (_, given) in &answers {
                if given.names.as_ref().is_some_and(|name| name != request) {
                    self.found.wrong(
                        "answer",
                        format!("{request} was given the answer to {:?}", given.names),
                    );
                }
                let known = taken
                    .get(request)
                    .is_some_and(|taken| taken.iter().any(|choice| choice.word() == given.option));
                if !known && !untold.contains(request) {
                    self.found.wrong(
                        "answer",
                        format!(
                            "{request} was answered {given:?}, and what was taken is {:?}",
                            taken.get(request)
                        ),
                    );
                }
            }
            let rows = shown.get(request).map_or(&[][..], Vec::as_slice);
            match rows {
                [] => {
                    let process = BTreeSet::from([*pid]);
                    let until = self.ends.recorded(*at);
                    let died = self.ends.between(&process, *at, until).is_some();
                    if !answers.is_empty() || !died {
                        self.found.wrong(
                            "lost",
                            format!(
                                "{request} was asked and is shown nowhere (answers {answers:?})"
                            ),
                        );
                    }
                }
                [row] => {
                    let effect = Effect {
                        from: first.get(request).copied().unwrap_or(*at),
                        // At the end of its turn it is known that it never had one.
                        acknowledged: match answers.first() {
                            Some((at, _)) => Some(*at),
                            None => self.journal.ended_at(&message_of(request)),
                        },
                        processes: BTreeSet::from([*pid]),
                    };
                    self.request(request, *at, row, &answers, &effect);
                }
                more => self.found.wrong(
                    "duplicated",
                    format!("{request} is shown {} times: {more:?}", more.len()),
                ),
            }
        }
        self.inferred();
        for request in shown.keys().filter(|name| !asked.contains_key(*name)) {
            self.found.wrong(
                "view",
                format!("{request} is shown, and the agent never asked it"),
            );
        }
    }

    /// The stops that the agent was told in the turn of a message, from a moment on; 0 where it did not end by one.
    fn stops(&self, message: &str, from: u64) -> usize {
        let ended = self.journal.ended(message);
        let (Some("interrupted" | "cancelled"), Some(until)) =
            (ended.as_deref(), self.journal.ended_at(message))
        else {
            return 0;
        };
        let turns = self.journal.arrivals(message);
        let stops = |turn: &Arrival| self.journal.stops(&turn.session, from.max(turn.at), until);
        turns.iter().map(stops).sum()
    }

    /// A turn has one open request at a time: its stops explain no more answers than there are stops.
    fn inferred(&mut self) {
        let mut answers: BTreeMap<String, usize> = BTreeMap::new();
        for request in &self.found.inferred {
            *answers.entry(message_of(request)).or_default() += 1;
        }
        for (message, count) in answers {
            let stops = self.stops(&message, 0);
            if count > stops {
                self.found.wrong(
                    "answer",
                    format!("{count} answers in the turn of {message} are shown as given, by {stops} stops"),
                );
            }
        }
    }

    fn request(
        &mut self,
        request: &str,
        asked_at: u64,
        row: &Value,
        answers: &[(u64, Given)],
        effect: &Effect,
    ) {
        let status = &row["status"];
        let answered = answers.first();
        let word = status["status"].as_str().unwrap_or_default();
        let says = |given: &Given| says(status, given);
        let unread = word == "answered" && answered.is_none();
        let doubt = match answered.is_some() || unread || !status["answer"].is_null() {
            true => self.doubt(effect),
            false => None,
        };
        match (word, answered) {
            ("answered", Some((_, given))) if says(given) => {}
            // It met a turn that was just being stopped, from whose end the host could only conclude (DETAILS section 3).
            ("answered", None)
                if status["delivery"] == "inferred"
                    && self.stops(&message_of(request), asked_at) > 0 =>
            {
                self.found.inferred.push(request.to_owned());
            }
            // Written to a process that was killed before it read it.
            ("answered", None) if status["delivery"] != "confirmed" && doubt.is_some() => {
                let doubt = doubt.unwrap_or_default();
                self.found
                    .unknown
                    .push(format!("{request} (written, not read; {doubt})"));
            }
            ("answered", None) => self.found.wrong(
                "answer",
                format!("{request} is shown as {status}, and the agent has no answer"),
            ),
            ("withdrawn" | "expired", None) => {}
            ("lost", None) if status["answer"].is_null() => {
                let killed = self.ends.between(&effect.processes, asked_at, u64::MAX);
                if killed.is_none() {
                    self.found.wrong(
                        "lost",
                        format!("{request} is shown as {status}, and its agent was not killed"),
                    );
                }
            }
            ("lost", answered) if !status["answer"].is_null() => {
                let reached = answered.is_some();
                match doubt {
                    Some(doubt) => self
                        .found
                        .unknown
                        .push(format!("{request} (reached the agent: {reached}; {doubt})")),
                    None => self.found.wrong(
                        "unknown",
                        format!(
                            "{request}: its agent was not killed when that could have made it so"
                        ),
                    ),
                }
                if answered.is_some_and(|(_, given)| !says(given)) {
                    self.found.wrong(
                        "answer",
                        format!("{request} is shown as {status}, the agent was given {answered:?}"),
                    );
                }
            }
            _ => self.found.wrong(
                "answer",
                format!("{request} is shown as {status}, the agent was given {answered:?}"),
            ),
        }
        if row["verified"] != json!(true) {
            self.found
                .wrong("view", format!("{request} is not verified: {row}"));
        }
    }
}

/// The message in whose turn a request was asked.
fn message_of(request: &str) -> String {
    request.split('.').next().unwrap_or_default().to_owned()
}

/// Whether a request's shown answer is the one that the agent was given.
fn says(status: &Value, given: &Given) -> bool {
    let answer = &status["answer"];
    let word = answer["option"]
        .as_str()
        .or_else(|| answer["replies"][0]["chosen"][0].as_str())
        .unwrap_or_default();
    match given.option.as_str() {
        "yes" => {
            word.starts_with("allow")
                || word.starts_with("accept")
                || word.starts_with("yes")
                || word.ends_with(": yes")
        }
        "no" => {
            word.starts_with("deny")
                || word == "decline"
                || word.starts_with("no")
                || word.ends_with(": no")
        }
        other => word == other,
    }
}
