//! After the transaction: what follows from it, or how it is as if it had not been.

use super::{Done, IDLE_CELLS, UNROUTED, Work};
use crate::{threads::LiveAt, writer::live};

impl Work {
    /// The transaction is on disk: tells subscribers, and says what follows.
    pub(crate) fn committed(&mut self) -> Done {
        let change = std::mem::take(&mut self.change);
        for incarnation in &change.routed {
            self.unrouted.remove(incarnation);
        }
        for (incarnation, event) in change.unrouted {
            let waiting = self.unrouted.entry(incarnation).or_default();
            if waiting.len() < UNROUTED {
                waiting.push(event);
            }
        }
        for incarnation in &change.done.ended {
            self.unrouted.remove(incarnation);
        }
        // Text first: whoever reads entries up to what is announced has the text that came before them.
        for (thread, after, item, text) in change.live {
            let offset = self.texts.append(thread, item, &text);
            if let Some(cell) = self.cells.get(&thread) {
                let live: LiveAt = live(after, item, offset, text);
                let _ = cell.live.send(live);
            }
        }
        for thread in change.before.keys() {
            if let Some(cell) = self.cells.get(thread) {
                cell.watch.send_replace(cell.cursor);
            }
        }
        for item in change.closed {
            self.texts.close(item);
        }
        self.forget_idle();
        change.done
    }

    /// The transaction failed: everything is as before it.
    pub(crate) fn rolled_back(&mut self) {
        let change = std::mem::take(&mut self.change);
        self.texts.restore(change.chunks);
        let touched: Vec<_> = change.before.keys().copied().collect();
        for (thread, before) in change.before {
            match before {
                Some(before) => {
                    if let Some(cell) = self.cells.get_mut(&thread) {
                        cell.put_back(before);
                    }
                }
                None => drop(self.cells.remove(&thread)),
            }
        }
        self.cells.retain(|_, cell| cell.cursor.seq > 0);
        self.sign_in_as_before(&touched);
    }

    pub(super) fn forget_idle(&mut self) {
        self.cells.retain(|_, cell| cell.cursor.seq > 0);
        if self.cells.len() <= IDLE_CELLS {
            return;
        }
        self.cells.retain(|_, cell| {
            cell.watch.receiver_count() > 0
                || cell.state.active.is_some()
                || cell
                    .state
                    .session
                    .as_ref()
                    .is_some_and(|session| session.live)
        });
    }
}
