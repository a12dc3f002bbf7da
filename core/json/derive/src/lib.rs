//! The derive behind `pilothouse_json::Tagged`.
//!
//! **Owns** one rewriting of tokens: an enum as `#[serde(tag = "…")]` describes it becomes a second, private one with the
//! same variants and without the tag, from which serde derives how a variant's fields are read. **Must not know** what the
//! enum is about.
#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Reads an enum that stands as an object with a tag, without keeping the object aside first: the place of
/// `serde::Deserialize` beside `serde::Serialize` on an enum with `#[serde(tag = "…")]` or `#[serde(tag = "…", content = "…")]`.
/// All other attributes of serde's mean what they mean there; at most one field of a variant is `#[serde(flatten)]`, and it is
/// read from the whole object, so its type may not refuse fields that it does not know.
#[proc_macro_derive(Tagged, attributes(serde))]
pub fn tagged(item: TokenStream) -> TokenStream {
    match Enum::read(item) {
        Ok(item) => item.shape(),
        Err(problem) => format!("compile_error!({problem:?});")
            .parse()
            .unwrap_or_default(),
    }
}

/// What is needed of the enum.
struct Enum {
    name: String,
    tag: String,
    content: Option<String>,
    attributes: String,
    variants: TokenStream,
}

impl Enum {
    fn read(item: TokenStream) -> Result<Self, String> {
        let (mut tag, mut content, mut attributes) = (None, None, String::new());
        let mut tokens = item.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(hash) if hash.as_char() == '#' => {
                    for (word, written) in tokens.next().and_then(serde_words).unwrap_or_default() {
                        match word.as_str() {
                            "tag" => tag = Some(written),
                            "content" => content = Some(written),
                            _ => attributes.push_str(&format!(", {written}")),
                        }
                    }
                }
                TokenTree::Ident(word) if word.to_string() == "enum" => {
                    let name = tokens.next().map(|name| name.to_string());
                    let Some(TokenTree::Group(body)) = tokens.next() else {
                        return Err("Tagged is for enums without parameters".to_owned());
                    };
                    let value = |written: String| {
                        let literal = written.split_once('=').map(|(_, literal)| literal.trim());
                        literal.map_or_else(String::new, |literal| {
                            literal.trim_matches('"').to_owned()
                        })
                    };
                    return Ok(Self {
                        name: name.unwrap_or_default(),
                        tag: tag.map(value).ok_or("Tagged needs #[serde(tag = \"…\")]")?,
                        content: content.map(value),
                        attributes,
                        variants: rewritten(body.stream()),
                    });
                }
                _ => {}
            }
        }
        Err("Tagged is for enums".to_owned())
    }

    fn shape(&self) -> TokenStream {
        let Self {
            name,
            tag,
            attributes,
            variants,
            ..
        } = self;
        let content = self.content.as_deref().unwrap_or_default();
        format!(
            "const _: () = {{
                #[derive(::serde::Deserialize)]
                #[serde(remote = \"{name}\"{attributes})]
                #[allow(dead_code)]
                enum Shape {{ {variants} }}
                impl ::pilothouse_json::Shape for {name} {{
                    const LAYOUT: &'static str = \"{}{tag} {content}\";
                    fn read<'de, D: ::serde::Deserializer<'de>>(from: D) -> ::core::result::Result<Self, D::Error> {{
                        Shape::deserialize(from)
                    }}
                }}
                impl<'de> ::serde::Deserialize<'de> for {name} {{
                    fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> ::core::result::Result<Self, D::Error> {{
                        ::pilothouse_json::tagged(from)
                    }}
                }}
            }};",
            "$tagged "
        )
        .parse()
        .unwrap_or_default()
    }
}

/// The words of a `[serde(…)]`, each with all that is written of it.
fn serde_words(attribute: TokenTree) -> Option<Vec<(String, String)>> {
    let TokenTree::Group(brackets) = attribute else {
        return None;
    };
    let mut inside = brackets.stream().into_iter();
    if inside.next()?.to_string() != "serde" {
        return None;
    }
    let TokenTree::Group(words) = inside.next()? else {
        return None;
    };
    let mut found = Vec::new();
    let mut written: Vec<TokenTree> = Vec::new();
    let mut close = |written: &mut Vec<TokenTree>| {
        if let Some(word) = written.first().map(ToString::to_string) {
            found.push((word, written.drain(..).collect::<TokenStream>().to_string()));
        }
    };
    for token in words.stream() {
        match token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => close(&mut written),
            token => written.push(token),
        }
    }
    close(&mut written);
    Some(found)
}

/// The variants with serde's attributes only, and a flattened field under the name by which the reader offers the object again.
fn rewritten(tokens: TokenStream) -> TokenStream {
    let mut out: Vec<TokenTree> = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                let Some(attribute) = tokens.next() else {
                    break;
                };
                let Some(words) = serde_words(attribute) else {
                    continue;
                };
                let words: Vec<String> = words
                    .into_iter()
                    .map(|(word, written)| match word.as_str() {
                        "flatten" => "rename = \"$flatten\"".to_owned(),
                        _ => written,
                    })
                    .collect();
                let kept: TokenStream = format!("#[serde({})]", words.join(", "))
                    .parse()
                    .unwrap_or_default();
                out.extend(kept);
            }
            TokenTree::Group(group) if group.delimiter() != Delimiter::None => {
                out.push(TokenTree::Group(Group::new(
                    group.delimiter(),
                    rewritten(group.stream()),
                )));
            }
            token => out.push(token),
        }
    }
    out.into_iter().collect()
}
