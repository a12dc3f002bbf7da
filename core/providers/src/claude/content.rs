//! Blocks of content as text.

use crate::rpc::frames::{cut, text_of, text_or_empty};
use serde_json::Value;

/// Bytes of a block that are shown where it is no text.
const SHOWN: usize = 1024;

/// A block as text: words as they are, anything else by its name and size. `None` for empty words.
fn text(block: &Value) -> Option<String> {
    let kind = text_or_empty(block, "type");
    let text = match kind.as_str() {
        "text" => text_or_empty(block, "text"),
        "image" | "document" => {
            let source = block.get("source").unwrap_or(&Value::Null);
            let media = text_of(source, "media_type").unwrap_or_else(|| "unknown type".to_owned());
            let size = text_or_empty(source, "data").len();
            format!("[{kind}, {media}, {size} characters of base64]")
        }
        "tool_reference" => text_or_empty(block, "tool_name"),
        _ => cut(&block.to_string(), SHOWN),
    };
    Some(text).filter(|text| !text.is_empty())
}

/// The pictures among blocks.
pub(super) fn pictures(blocks: &[Value]) -> impl Iterator<Item = &Value> {
    blocks
        .iter()
        .filter(|block| block.get("type").and_then(Value::as_str) == Some("image"))
}

/// Content as text: a text itself, or a list of blocks.
pub(super) fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(text)
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Null => String::new(),
        block => text(block).unwrap_or_default(),
    }
}
