//! How an item's final content meets what was streamed (DETAILS section 2).

use pilothouse_domain::{Body, ItemContent};

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

/// The same content without its streamed text, to see whether anything else changed.
pub(super) fn shape(content: &ItemContent) -> ItemContent {
    let mut shape = content.clone();
    if let Some(text) = shape.streamed_mut() {
        *text = Body::default();
    }
    shape
}
