//! A unified diff of two texts, for agents that send both texts whole.

use std::fmt::Write as _;

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// Cells of the tables by which all texts of one frame are compared; where more would be needed, all lines between the first
/// and the last difference stand as removed and added. 4 MiB of memory, some 10 ms.
pub(crate) const CELLS: usize = 1 << 20;

/// One line of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Keep,
    Remove,
    Add,
}

/// The hunks that make `new` of `old`, without file names; empty if they are equal. `cells` is what is left to compare with.
pub(crate) fn unified(old: &str, new: &str, cells: &mut usize) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (
        old.split_inclusive('\n').collect(),
        new.split_inclusive('\n').collect(),
    );
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = old.iter().zip(&new).take_while(same).count();
    let rest = (old.len() - start).min(new.len() - start);
    let end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(rest)
        .take_while(same)
        .count();
    let mut steps = vec![Step::Keep; start];
    middle(
        &old[start..old.len() - end],
        &new[start..new.len() - end],
        cells,
        &mut steps,
    );
    steps.extend(vec![Step::Keep; end]);
    hunks(&old, &new, &steps)
}

/// The fewest lines that differ, by the table of longest common subsequences.
fn middle(old: &[&str], new: &[&str], cells: &mut usize, steps: &mut Vec<Step>) {
    let width = new.len() + 1;
    let needed = (old.len() + 1).saturating_mul(width);
    if old.is_empty() || new.is_empty() || needed > *cells {
        steps.extend(vec![Step::Remove; old.len()]);
        steps.extend(vec![Step::Add; new.len()]);
        return;
    }
    *cells -= needed;
    let mut table = vec![0u32; (old.len() + 1) * width];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            table[a * width + b] = if old[a] == new[b] {
                table[(a + 1) * width + b + 1] + 1
            } else {
                table[(a + 1) * width + b].max(table[a * width + b + 1])
            };
        }
    }
    let (mut a, mut b) = (0, 0);
    while a < old.len() || b < new.len() {
        if a < old.len() && b < new.len() && old[a] == new[b] {
            steps.push(Step::Keep);
            a += 1;
            b += 1;
        } else if b == new.len()
            || (a < old.len() && table[(a + 1) * width + b] >= table[a * width + b + 1])
        {
            steps.push(Step::Remove);
            a += 1;
        } else {
            steps.push(Step::Add);
            b += 1;
        }
    }
}

fn hunks(old: &[&str], new: &[&str], steps: &[Step]) -> String {
    let mut out = String::new();
    let (mut a, mut b) = (0, 0);
    let mut at = 0;
    while at < steps.len() {
        if steps[at] == Step::Keep {
            at += 1;
            a += 1;
            b += 1;
            continue;
        }
        // A hunk ends where more than twice the context stays the same.
        let mut last = at;
        let mut next = at;
        while next < steps.len() && next - last <= 2 * CONTEXT {
            if steps[next] != Step::Keep {
                last = next;
            }
            next += 1;
        }
        let before = CONTEXT.min(at);
        let after = CONTEXT.min(steps.len() - last - 1);
        let hunk = &steps[at - before..=last + after];
        let (from_old, from_new) = (a - before, b - before);
        let removed = hunk.iter().filter(|step| **step != Step::Add).count();
        let added = hunk.iter().filter(|step| **step != Step::Remove).count();
        let first = |from: usize, length: usize| if length == 0 { from } else { from + 1 };
        let _ = writeln!(
            out,
            "@@ -{},{removed} +{},{added} @@",
            first(from_old, removed),
            first(from_new, added)
        );
        (a, b) = (from_old, from_new);
        for step in hunk {
            let (mark, text) = match step {
                Step::Keep => (' ', old[a]),
                Step::Remove => ('-', old[a]),
                Step::Add => ('+', new[b]),
            };
            a += usize::from(*step != Step::Add);
            b += usize::from(*step != Step::Remove);
            out.push(mark);
            out.push_str(text);
            if !text.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
        at = last + after + 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unified(old: &str, new: &str) -> String {
        super::unified(old, new, &mut CELLS.clone())
    }

    /// What a diff makes of a text, read as `patch` reads it.
    fn applied(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let mut out = String::new();
        let mut at = 0;
        let mut lines = diff.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            if let Some(head) = line.strip_prefix("@@ -") {
                let (from, rest) = head.split_once(',').unwrap();
                let removed: usize = rest.split(' ').next().unwrap().parse().unwrap();
                let from: usize = from.parse().unwrap();
                let from = if removed == 0 { from } else { from - 1 };
                while at < from {
                    out.push_str(old[at]);
                    at += 1;
                }
                continue;
            }
            let cut = lines.next_if(|next| next.starts_with('\\')).is_some();
            let text = if cut {
                line[1..].trim_end_matches('\n')
            } else {
                &line[1..]
            };
            match line.as_bytes()[0] {
                b'+' => out.push_str(text),
                mark => {
                    assert_eq!(old[at], text);
                    at += 1;
                    if mark == b' ' {
                        out.push_str(text);
                    }
                }
            }
        }
        out.extend(old[at..].iter().copied());
        out
    }

    #[test]
    fn a_change_stands_between_three_lines_of_what_stays() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        assert_eq!(
            unified(old, new),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        );
        assert_eq!(unified(old, old), "");
        assert_eq!(unified("", "a\n"), "@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(
            unified("a", "b\n"),
            "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n"
        );
    }

    #[test]
    fn huge_texts_are_compared_in_bounded_memory() {
        let text = |salt: usize| {
            (0..40_000)
                .map(|n| format!("{}\n", n * salt))
                .collect::<String>()
        };
        let (old, new) = (text(3), text(7));
        assert_eq!(applied(&old, &unified(&old, &new)), new);
    }

    #[test]
    fn what_one_text_took_of_the_budget_the_next_does_not_have() {
        let (old, new) = ("a\nx\nb\n".repeat(300), "x\nc\n".repeat(300));
        let mut cells = CELLS;
        let compared = super::unified(&old, &new, &mut cells);
        let again = super::unified(&old, &new, &mut cells);
        assert!(cells < CELLS);
        assert!(compared.lines().any(|line| line.starts_with(" x")));
        assert_eq!(applied(&old, &again), new);
        assert!(
            again.lines().all(|line| !line.starts_with(" x")),
            "no cells were left"
        );
    }

    proptest! {
        #[test]
        fn applying_a_diff_gives_the_new_text(old in "[ab\n]{0,60}", new in "[ab\n]{0,60}") {
            prop_assert_eq!(applied(&old, &unified(&old, &new)), new);
        }
    }
}
