//! Finds what a person means by the beginning of an id.

use super::failure::{Candidate, Code, Failure};

/// The one of `all` that `given` names: by its whole name, or by a beginning of its id that fits no other.
///
/// Never guesses: a beginning that fits several is an error that lists them (an answer must not go to another request
/// than the one meant).
pub(crate) fn pick<'a, T>(
    kind: &str,
    given: &str,
    all: &'a [T],
    id: impl Fn(&T) -> String,
    name: impl Fn(&T) -> Option<String>,
    label: impl Fn(&T) -> String,
    list_with: &str,
) -> Result<&'a T, Failure> {
    let wanted = given.trim().to_ascii_lowercase();
    if wanted.is_empty() {
        return Err(Failure::new(Code::Usage, format!("the {kind} is empty"))
            .next(format!("name one; {list_with} lists them")));
    }
    let named: Vec<&T> = all
        .iter()
        .filter(|one| name(one).as_deref() == Some(given))
        .collect();
    let fitting = if named.is_empty() {
        all.iter()
            .filter(|one| id(one).starts_with(&wanted))
            .collect()
    } else {
        named
    };
    match fitting.as_slice() {
        [one] => Ok(one),
        [] => Err(Failure::new(
            Code::NothingThere,
            format!("no {kind} begins with `{given}`"),
        )
        .next(format!("{list_with} lists those there are"))),
        several => {
            let mut failure = Failure::new(
                Code::Usage,
                format!("`{given}` fits {} {kind}s", several.len()),
            )
            .next("give more letters of its id");
            failure.candidates = several
                .iter()
                .map(|one| Candidate {
                    id: id(one),
                    label: label(one),
                })
                .collect();
            Err(failure)
        }
    }
}

/// The shortest beginning of `id` that fits none of the `others`, at least four letters.
pub(crate) fn short(id: &str, others: impl Iterator<Item = String>) -> String {
    let mut length = 4.min(id.len());
    for other in others {
        if other == id {
            continue;
        }
        let common = id
            .bytes()
            .zip(other.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        length = length.max((common + 1).min(id.len()));
    }
    id[..length].to_owned()
}
