//! What is kept step by step is what the log says.

use crate::stories::{asked_to_run, patches, says};
use pilothouse_domain::{Epoch, Mode, RunStatus};
use pilothouse_store::{Durability, LedgerStore, StoreError};
use pilothouse_tests::World;

#[test]
fn a_ledger_rebuilt_from_its_logs_is_the_one_that_was_kept_and_devices_go_on_with_it() {
    let mut world = World::start_bound();
    let device = world.device("phone");
    let (first, row) = asked_to_run(&world, &device, "allowed", "echo allowed >> allowed.txt");
    device.accepted(&device.choose(&row, "accept"));
    device.completed(first, 1);
    world
        .model
        .script("patched", &patches(&["one.txt", "two.txt"]));
    device.accepted(&device.say(first, "[[script:patched]]"));
    for option in ["accept", "decline"] {
        let row = device.asked(first);
        device.accepted(&device.choose(&row, option));
    }
    device.completed(first, 2);
    assert_eq!(world.text_of("one.txt").as_deref(), Some("patched\n"));
    assert_eq!(world.text_of("two.txt"), None);
    let (second, _) = asked_to_run(&world, &device, "stopped", "echo stopped >> stopped.txt");
    device.accepted(&device.interrupt(second));
    assert_eq!(device.ended(second, 1).status, RunStatus::Interrupted);
    let (third, _) = asked_to_run(&world, &device, "lost", "echo lost >> lost.txt");
    world.host.kill_9();
    world.host.restart();
    device.network_changes();
    assert_eq!(device.ended(third, 1).status, RunStatus::Interrupted);
    world.host.verify();

    let threads = [first, second, third];
    let before = threads.map(|thread| world.host.digest(thread));
    let rows =
        |world: &World| threads.map(|thread| world.host.ledger(|ledger| ledger.all_rows(thread)));
    let kept = rows(&world);
    assert!(world.host.stop().success());
    let mut store = LedgerStore::open(world.host.state(), Epoch::default()).unwrap();
    for thread in threads {
        let rebuilt =
            store.transaction::<_, StoreError>(|tx| tx.rebuild(thread), Durability::Synced);
        assert!(rebuilt.unwrap().summary.is_some());
    }
    drop(store);
    assert_eq!(threads.map(|thread| world.host.digest(thread)), before);
    assert_eq!(rows(&world), kept);

    world.host.restart();
    device.network_changes();
    device.synchronised();
    for thread in threads {
        device.same_as(&world.host, thread);
    }
    world.model.script("after", &says("Still here."));
    let fourth = device.new_thread("codex", Mode::Ask);
    device.accepted(&device.say(fourth, "[[script:after]]"));
    device.completed(fourth, 1);
    world.host.verify();
}
