//! Processor time of a process with all that it has started.

use std::{collections::BTreeMap, fs, path::Path};

/// What `/proc/PID/stat` says of a process, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    group: u32,
    /// Clock ticks of its own and of its children that have ended.
    ticks: u64,
}

/// Clock ticks that a process, its group and everything that descends from it have used so far; 0 if the system does not
/// tell. It may fall when a process ends whose parent does not wait for it: what counts is whether it changes.
pub(super) fn ticks_of(leader: u32) -> u64 {
    let all = read_all(Path::new("/proc"));
    let belongs = |mut pid: u32| {
        // No chain of parents is longer than there are processes.
        for _ in 0..all.len() {
            let Some(stat) = all.get(&pid) else {
                return false;
            };
            if pid == leader || stat.group == leader {
                return true;
            }
            pid = stat.parent;
        }
        false
    };
    all.iter()
        .filter(|(pid, _)| belongs(**pid))
        .map(|(_, stat)| stat.ticks)
        .fold(0, u64::saturating_add)
}

fn read_all(proc: &Path) -> BTreeMap<u32, Stat> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let stats = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, parse(&text)?))
    });
    stats.collect()
}

/// The name, which may hold anything, stands in parentheses; fields are counted behind it.
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ticks = (11..=14).map(number).sum::<Option<u64>>()?;
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        group: u32::try_from(number(2)?).ok()?,
        ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_is_no_field() {
        let text = "42 (a) b (c) S 7 9 9 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6 7\n";
        let stat = Stat {
            parent: 7,
            group: 9,
            ticks: 100,
        };
        assert_eq!(parse(text), Some(stat));
        assert_eq!(parse("42 (cut off) S 7"), None);
    }

    #[test]
    fn this_process_has_used_some() {
        let mut sum = 0_u64;
        let own = std::process::id();
        while ticks_of(own) == 0 {
            sum = sum.wrapping_add(1);
        }
        assert!(sum < u64::MAX);
    }
}
