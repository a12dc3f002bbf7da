//! Blocks of content as text.

pub(super) use crate::rpc::frames::id_of;
use crate::rpc::frames::{cut, text_of, text_or_empty};
use serde_json::Value;

/// Bytes of a block that are shown where it is no text.
pub(super) const SHOWN: usize = 1024;

/// A block as text: words as they are, a link as one, anything else by its name and size. `None` for empty words.
pub(crate) fn text(block: &Value) -> Option<String> {
    let kind = text_or_empty(block, "type");
    let size = |key: &str| text_or_empty(block, key).len();
    let media = || text_of(block, "mimeType").unwrap_or_else(|| "unknown type".to_owned());
    let text = match kind.as_str() {
        "text" => text_or_empty(block, "text"),
        "resource_link" => {
            let uri = text_or_empty(block, "uri");
            match text_of(block, "title").or_else(|| text_of(block, "name")) {
                Some(name) if name != uri => format!("[{name}]({uri})"),
                _ => format!("<{uri}>"),
            }
        }
        "resource" => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            match text_of(resource, "text") {
                Some(text) => text,
                None => format!(
                    "[resource {}, {} characters of base64]",
                    text_or_empty(resource, "uri"),
                    text_or_empty(resource, "blob").len()
                ),
            }
        }
        "image" | "audio" => {
            format!(
                "[{kind}, {}, {} characters of base64]",
                media(),
                size("data")
            )
        }
        _ => cut(&block.to_string(), SHOWN),
    };
    Some(text).filter(|text| !text.is_empty())
}

/// A list of blocks, or a single one, as text.
pub(crate) fn texts(blocks: &Value) -> String {
    match blocks {
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(text)
            .collect::<Vec<_>>()
            .join("\n"),
        block => text(block).unwrap_or_default(),
    }
}
