//! One subscriber with the time in a test's hand: how often live text comes, and what never waits for it.

use super::*;
use pilothouse_domain::Cause;
use pilothouse_store::{Durability, LedgerStore};

const THREAD: ThreadId = ThreadId::from_bytes([1; 16]);
const ITEMS: [ItemId; 2] = [ItemId::from_bytes([2; 16]), ItemId::from_bytes([3; 16])];

/// A log, and what its writer tells subscribers.
struct Log {
    store: LedgerStore,
    watch: watch::Sender<Cursor>,
    live: broadcast::Sender<LiveAt>,
    offsets: BTreeMap<ItemId, u64>,
    _dir: tempfile::TempDir,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            store: LedgerStore::open(dir.path(), Epoch::from_bytes([7; 16])).unwrap(),
            watch: watch::channel(Cursor::default()).0,
            live: broadcast::channel(64).0,
            offsets: BTreeMap::new(),
            _dir: dir,
        }
    }

    fn follow(&self) -> Subscription {
        let now = *self.watch.borrow();
        let answer = Subscribed {
            gap: None,
            snapshot: None,
            rows: Vec::new(),
            older: false,
            open_items: Vec::new(),
            high_water: now,
        };
        let reader = self.store.reader().unwrap();
        let (log, live) = (self.watch.subscribe(), self.live.subscribe());
        Subscription::new(THREAD, answer, now, reader, log, live)
    }

    fn append(&mut self) {
        let entry = self.store.transaction(
            |tx| tx.append(THREAD, Cause::Clock, 0, Vec::new()),
            Durability::Lazy,
        );
        let entry = entry.unwrap();
        self.watch.send_replace(entry.cursor());
    }

    fn say(&mut self, item: ItemId, text: &str) {
        let offset = self.offsets.entry(item).or_default();
        let live = LiveText {
            item,
            offset: *offset,
            text: text.to_owned(),
        };
        *offset += text.len() as u64;
        let after = self.watch.borrow().seq;
        let _ = self.live.send(LiveAt { after, text: live });
    }
}

async fn next(subscription: &mut Subscription) -> ThreadUpdate {
    subscription.next().await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn live_text_comes_five_times_a_second_per_item_at_most_and_the_first_piece_at_once() {
    let mut log = Log::new();
    let mut subscription = log.follow();
    let begun = Instant::now();
    let saying = async {
        for n in 0..300 {
            for item in ITEMS {
                log.say(item, &format!("{n} "));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let said: String = (0..300).map(|n| format!("{n} ")).collect();
    let mut came: BTreeMap<ItemId, Vec<(Instant, LiveText)>> = BTreeMap::new();
    let reading = async {
        let whole = |pieces: &Vec<(Instant, LiveText)>| {
            pieces
                .iter()
                .map(|(_, live)| live.text.len())
                .sum::<usize>()
                == said.len()
        };
        while came.len() < 2 || !came.values().all(whole) {
            match next(&mut subscription).await {
                ThreadUpdate::Live(live) => {
                    came.entry(live.item)
                        .or_default()
                        .push((Instant::now(), live));
                }
                ThreadUpdate::Entries(entries) => panic!("{entries:?}"),
            }
        }
    };
    tokio::join!(saying, reading);
    for pieces in came.values() {
        assert_eq!(pieces[0].0, begun, "the first at once");
        assert_eq!(pieces[0].1.text, "0 ");
        for pair in pieces.windows(2) {
            assert!(pair[1].0 - pair[0].0 >= LIVE_EVERY);
        }
        // 3 s: one at once, fourteen in between, one for the rest.
        assert!((15..=17).contains(&pieces.len()), "{}", pieces.len());
        let text: String = pieces.iter().map(|(_, live)| live.text.as_str()).collect();
        assert_eq!(text, said, "nothing is lost, and in order");
    }
}

/// A clock that stands still hides what is due only a moment later.
#[tokio::test]
async fn the_first_piece_comes_by_itself_while_the_clock_runs() {
    let mut log = Log::new();
    log.append();
    let mut subscription = log.follow();
    for item in ITEMS {
        log.say(item, "first");
        let soon = tokio::time::timeout(Duration::from_secs(20), next(&mut subscription));
        let ThreadUpdate::Live(live) = soon.await.expect("no entry follows that would bring it")
        else {
            panic!()
        };
        assert_eq!((live.item, live.text.as_str()), (item, "first"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_waits_for_no_timer_and_comes_behind_the_text_before_it() {
    let mut log = Log::new();
    log.append();
    let mut subscription = log.follow();
    log.say(ITEMS[0], "first");
    let ThreadUpdate::Live(first) = next(&mut subscription).await else {
        panic!()
    };
    assert_eq!(first.text, "first");
    // This piece is not due for 200 ms; then a request, an answer or an end.
    let begun = Instant::now();
    log.say(ITEMS[0], ", second");
    log.append();
    log.say(ITEMS[0], ", third");
    let ThreadUpdate::Live(second) = next(&mut subscription).await else {
        panic!()
    };
    assert_eq!(second.text, ", second");
    let ThreadUpdate::Entries(entries) = next(&mut subscription).await else {
        panic!()
    };
    assert_eq!(entries.len(), 1);
    assert!(
        begun.elapsed() < Duration::from_millis(5),
        "no timer passed"
    );
    let ThreadUpdate::Live(third) = next(&mut subscription).await else {
        panic!()
    };
    assert_eq!(third.text, ", third");
    assert!(begun.elapsed() >= LIVE_EVERY);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_at_any_moment_loses_nothing() {
    let mut log = Log::new();
    log.append();
    let mut subscription = log.follow();
    let mut text = String::new();
    let mut entries = 1;
    for n in 0..40 {
        log.append();
        log.say(ITEMS[0], &format!("{n} "));
        // Given up after some polls, wherever that is.
        for polls in 0..4 {
            let given_up = async {
                for _ in 0..polls {
                    tokio::task::yield_now().await;
                }
            };
            let update = tokio::select! {
                biased;
                update = subscription.next() => Some(update),
                () = given_up => None,
            };
            match update {
                None => {}
                Some(Ok(Some(ThreadUpdate::Live(live)))) => text.push_str(&live.text),
                Some(Ok(Some(ThreadUpdate::Entries(more)))) => entries += more.len(),
                Some(other) => panic!("{other:?}"),
            }
        }
    }
    let said: String = (0..40).map(|n| format!("{n} ")).collect();
    while text.len() < said.len() || entries < 41 {
        match next(&mut subscription).await {
            ThreadUpdate::Live(live) => text.push_str(&live.text),
            ThreadUpdate::Entries(more) => entries += more.len(),
        }
    }
    assert_eq!((text, entries), (said, 41));
}
