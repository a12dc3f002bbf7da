//! Subagents.

use crate::world::{PHONE, World, approval, assistant, choose, command};
use pilothouse_domain::{
    EffectKind, ItemContent, ItemStatus, NativeId, ProviderEventKind, RequestStatus, Row,
    RunStatus, limits,
    provider::TurnStatus,
    provider_event::NativePlace,
    request::{LostReason, RequestKind},
    run::{NodeKind, NodeStatus},
};

fn of(child: &str) -> NativePlace {
    NativePlace {
        thread: Some(child.into()),
        root: Some("T".into()),
        turn: Some("CU".into()),
    }
}

fn spawn(world: &mut World, child: &str) {
    world.agent(ProviderEventKind::ChildOpened {
        child: child.into(),
        item: None,
        title: format!("Look into {child}"),
    });
}

fn ask(world: &mut World, child: &str, request: &str) {
    world.agent_at(
        of(child),
        ProviderEventKind::RequestOpened {
            request: request.into(),
            item: None,
            kind: RequestKind::Command,
            subject: Box::new(approval("make")),
            unknown_fields: false,
        },
    );
}

#[test]
fn a_childs_items_stand_under_its_node() {
    let mut world = World::new();
    let run = world.running("first");
    spawn(&mut world, "A");
    world.agent_at(
        of("A"),
        ProviderEventKind::ItemClosed {
            item: "m".into(),
            status: ItemStatus::Completed,
            content: assistant("found it"),
            client_id: None,
        },
    );
    let child = *world.thread.state.nodes.last().unwrap();
    assert_eq!((child.kind, child.run), (NodeKind::Subagent, run));
    let item = world.items().pop().unwrap();
    assert_eq!((item.node, item.run), (child.id, run));
    assert!(
        !world.thread.state.active.as_ref().unwrap().answered,
        "a child's words are no answer of the run"
    );
    world.agent(ProviderEventKind::ChildClosed {
        child: "A".into(),
        status: TurnStatus::Completed,
    });
    assert_eq!(world.thread.state.nodes.len(), 1);
    let subagent = world
        .items()
        .into_iter()
        .find(|item| matches!(item.content, ItemContent::Subagent { .. }))
        .unwrap();
    assert_eq!(subagent.status, ItemStatus::Completed);
}

#[test]
fn a_child_goes_on_in_the_background_and_its_request_stays_open() {
    let mut world = World::new();
    let run = world.running("first");
    spawn(&mut world, "A");
    ask(&mut world, "A", "5");
    assert_eq!(world.run(run).status, RunStatus::Waiting);
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.run(run).status, RunStatus::Completed);
    assert_eq!(world.thread.state.nodes[0].status, NodeStatus::Background);
    assert!(world.thread.state.items.iter().all(|slot| slot.background));
    let request = world.request();
    assert_eq!(request.status, RequestStatus::Pending);
    world
        .answer_as(PHONE, request.id, request.content_hash, choose("accept"))
        .unwrap();

    // The next turn of the thread leaves it alone.
    world.running("second");
    ask(&mut world, "A", "6");
    let second = world.thread.state.active.as_ref().unwrap();
    assert_eq!(
        second.status,
        RunStatus::Running,
        "the child's question is not this run's"
    );
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.request().status, RequestStatus::Pending);
    world.agent(ProviderEventKind::ChildClosed {
        child: "A".into(),
        status: TurnStatus::Interrupted,
    });
    assert_eq!(world.request().status, RequestStatus::Withdrawn);
    assert_eq!(
        (
            world.thread.state.nodes.len(),
            world.thread.state.items.len()
        ),
        (0, 0)
    );
}

#[test]
fn case_38_a_child_that_was_never_announced_is_shown_and_can_ask() {
    let mut world = World::new();
    world.running("first");
    ask(&mut world, "B", "9");
    let request = world.request();
    assert_eq!(request.status, RequestStatus::Pending);
    assert_eq!(
        world.thread.state.node(request.node).unwrap().kind,
        NodeKind::Subagent
    );
}

#[test]
fn case_38_a_grandchild_asks_under_its_parents_also_when_the_turn_is_over() {
    let mut world = World::new();
    let run = world.running("first");
    spawn(&mut world, "A");
    let grandchild = ProviderEventKind::ChildOpened {
        child: "G".into(),
        item: None,
        title: "Look into the rest".into(),
    };
    world.agent_at(of("A"), grandchild);
    world.end_turn(TurnStatus::Completed);
    assert_eq!(world.run(run).status, RunStatus::Completed);
    ask(&mut world, "G", "9");
    let request = world.request();
    assert_eq!(request.status, RequestStatus::Pending);

    let nodes: Vec<_> = world
        .thread
        .rows
        .0
        .values()
        .filter_map(|row| match row {
            Row::Node(node) => Some(node),
            _ => None,
        })
        .collect();
    let mut above = vec![];
    let mut next = Some(request.node);
    while let Some(id) = next {
        let node = nodes.iter().find(|node| node.id == id).unwrap();
        assert_eq!(node.run, run);
        above.push((node.kind, node.title.as_str()));
        next = node.parent;
    }
    let [asking, parent, (root, _)] = above[..] else {
        panic!("a grandchild, a child and the thread's turn: {above:?}")
    };
    assert_eq!(asking, (NodeKind::Subagent, "Look into the rest"));
    assert_eq!(parent, (NodeKind::Subagent, "Look into A"));
    assert_eq!(root, NodeKind::RootTurn);

    // Its parent's end leaves it, and what it asks.
    world.agent(ProviderEventKind::ChildClosed {
        child: "A".into(),
        status: TurnStatus::Completed,
    });
    world.effects();
    world
        .answer_as(PHONE, request.id, request.content_hash, choose("accept"))
        .unwrap();
    let effects = world.effects();
    assert!(
        matches!(&effects[..], [effect] if matches!(effect.kind, EffectKind::Respond { .. })),
        "the agent is told: {effects:?}"
    );
}

#[test]
fn a_childs_own_turn_end_ends_neither_it_nor_the_run() {
    let mut world = World::new();
    let run = world.running("first");
    spawn(&mut world, "A");
    world.agent_at(
        of("A"),
        ProviderEventKind::ItemOpened {
            item: "c".into(),
            content: command("make", ""),
            client_id: None,
        },
    );
    world.agent_at(
        of("A"),
        ProviderEventKind::TurnEnded {
            status: TurnStatus::Completed,
            error: None,
        },
    );
    assert_eq!(world.run(run).status, RunStatus::Running);
    assert_eq!(world.thread.state.nodes.len(), 2);
}

#[test]
fn children_over_the_cap_are_shown_under_their_parent() {
    let mut world = World::new();
    let run = world.running("first");
    for n in 0..limits::LIVE_TREE + 3 {
        spawn(&mut world, &format!("child-{n}"));
    }
    assert_eq!(world.thread.state.nodes.len(), limits::LIVE_TREE);
    let over = NativeId(format!("child-{}", limits::LIVE_TREE + 1));
    world.agent_at(
        of(over.as_str()),
        ProviderEventKind::TurnEnded {
            status: TurnStatus::Completed,
            error: None,
        },
    );
    assert_eq!(world.run(run).status, RunStatus::Running);
    world.agent(ProviderEventKind::ChildClosed {
        child: over,
        status: TurnStatus::Completed,
    });
    assert_eq!(
        world.thread.state.nodes.len(),
        limits::LIVE_TREE,
        "nothing is evicted"
    );
    let said = world
        .items()
        .iter()
        .filter(|item| matches!(item.content, ItemContent::Error { .. }))
        .count();
    assert_eq!(said, 4);
}

#[test]
fn a_lost_runtime_takes_its_children_along() {
    let mut world = World::new();
    world.running("first");
    spawn(&mut world, "A");
    ask(&mut world, "A", "5");
    world.end_turn(TurnStatus::Completed);
    world.thread.lose_runtime(LostReason::AgentExited, "gone");
    let state = &world.thread.state;
    assert_eq!(
        (state.nodes.len(), state.items.len(), state.requests.len()),
        (0, 0, 0)
    );
}
