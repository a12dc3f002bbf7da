//! Files that go with a message. opencode takes them in the message itself, and puts words in the place of a picture that its
//! model does not read, as if nothing were amiss; what no model reads fails every later turn of the conversation, too
//! (docs/agents-probes.md). So a file is looked at before anything is sent.

use super::{outgoing::File, replies::Model};
use crate::{contract::InputFile, picture::Picture};
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Bytes of all files of one message: they are held several times over while it is sent.
const FILES: u64 = 32 * 1024 * 1024;

/// Reads files as `model` takes them; `None` where it is not known which model opencode takes. Says in words which one cannot
/// be sent.
pub(super) async fn read(
    files: Vec<InputFile>,
    model: Option<&Model>,
) -> Result<Vec<File>, String> {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    if bytes > FILES {
        return Err(format!(
            "the files have {bytes} bytes together, and at most {FILES} can be sent with one message; nothing was sent"
        ));
    }
    let mut read = Vec::with_capacity(files.len());
    for file in files {
        let bytes = tokio::fs::read(&file.path)
            .await
            .map_err(|error| format!("`{}` cannot be read: {error}", file.name))?;
        let media_type = media_type(&file.name, &bytes, model)?;
        read.push(File {
            name: file.name,
            media_type,
            url: format!("data:{media_type};base64,{}", STANDARD.encode(bytes)),
        });
    }
    Ok(read)
}

/// What a file is, if the model takes that.
fn media_type(name: &str, bytes: &[u8], model: Option<&Model>) -> Result<&'static str, String> {
    let (media_type, what, taken) = if let Some(picture) = Picture::of(bytes) {
        (
            picture.media_type(),
            "pictures",
            model.map(|model| model.images),
        )
    } else if bytes.starts_with(b"%PDF-") {
        (
            "application/pdf",
            "PDF documents",
            model.map(|model| model.documents),
        )
    } else if std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0')) {
        // opencode puts it into the message as words.
        ("text/plain", "text", Some(true))
    } else {
        return Err(format!(
            "`{name}` is no picture (PNG, JPEG, GIF, WebP), no PDF and no text in UTF-8; nothing was sent"
        ));
    };
    match (taken, model) {
        (Some(true), _) => Ok(media_type),
        (_, Some(model)) => Err(format!(
            "`{name}` was not sent: {}/{} does not take {what}; choose another model",
            model.provider, model.id
        )),
        (_, None) => Err(format!(
            "`{name}` was not sent: it is not known whether the model that opencode takes reads {what}; choose one"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(images: bool, documents: bool) -> Model {
        Model {
            provider: "local".to_owned(),
            id: "scripted".to_owned(),
            name: "Scripted".to_owned(),
            variants: Vec::new(),
            context: None,
            images,
            documents,
        }
    }

    #[test]
    fn a_file_is_sent_as_what_it_is_and_only_where_the_model_takes_it() {
        let seeing = model(true, false);
        let png = b"\x89PNG\r\n\x1a\n....";
        assert_eq!(media_type("a.txt", png, Some(&seeing)), Ok("image/png"));
        assert_eq!(media_type("a.png", b"words", None), Ok("text/plain"));
        for (bytes, model, said) in [
            (&png[..], None, "it is not known whether"),
            (
                &png[..],
                Some(&model(false, true)),
                "local/scripted does not take pictures",
            ),
            (b"%PDF-1.7", Some(&seeing), "does not take PDF documents"),
            (b"PK\x03\x04\0", Some(&seeing), "is no picture"),
            (b"\xff\xfe", Some(&seeing), "is no picture"),
        ] {
            let problem = media_type("a", bytes, model).unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[tokio::test]
    async fn files_that_are_too_much_together_are_not_even_read() {
        let file = InputFile {
            name: "a.png".to_owned(),
            media_type: "image/png".to_owned(),
            bytes: FILES / 2 + 1,
            path: "nowhere".into(),
        };
        let problem = read(vec![file.clone(), file], None).await.unwrap_err();
        assert!(problem.contains("at most 33554432"), "{problem}");
    }
}
