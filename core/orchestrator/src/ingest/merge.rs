//! How an item's final content meets what was streamed (DETAILS section 2).

use pilothouse_domain::{BlobHash, Body, ItemContent};

/// The final content of an item. Words are replaced by the final ones; a command's output is the fuller of what was
/// streamed and what the agent gave at the end, for agents cut the latter for their model.
pub(super) fn final_content(content: &ItemContent, streamed: Option<&Body>) -> ItemContent {
    let mut merged = content.clone();
    let Some(streamed) = streamed.filter(|body| !body.is_empty()) else {
        return merged;
    };
    match &mut merged {
        ItemContent::Command {
            output,
            agent_output,
            ..
        } if !is_fuller(output, streamed) => {
            let given = std::mem::replace(output, streamed.clone());
            *agent_output = Some(given).filter(|given| !given.is_empty());
        }
        // An agent that ends its words without repeating them.
        ItemContent::AssistantMessage { text }
        | ItemContent::Reasoning { text }
        | ItemContent::Plan { text, .. }
            if text.is_empty() =>
        {
            *text = streamed.clone();
        }
        _ => {}
    }
    merged
}

fn is_fuller(given: &Body, streamed: &Body) -> bool {
    match (given, streamed) {
        (Body::Inline(given), Body::Inline(streamed)) => {
            given.len() >= streamed.len() || given.contains(streamed.as_str())
        }
        (given, streamed) => given.len() >= streamed.len(),
    }
}

/// What of a text comes after what was streamed of it; `None` if it does not begin so.
pub(super) fn beyond<'a>(text: &'a str, streamed: &Body) -> Option<&'a str> {
    match streamed {
        Body::Inline(streamed) => text.strip_prefix(streamed.as_str()),
        Body::Stored(stored) => {
            let (begun, more) = text.split_at_checked(usize::try_from(stored.bytes).ok()?)?;
            (BlobHash::of(begun.as_bytes()) == stored.hash).then_some(more)
        }
    }
}

/// The same content without its streamed text, to see whether anything else changed.
pub(super) fn shape(content: &ItemContent) -> ItemContent {
    let mut shape = content.clone();
    if let Some(text) = shape.streamed_mut() {
        *text = Body::default();
    }
    shape
}
