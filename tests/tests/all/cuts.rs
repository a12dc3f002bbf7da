//! The connection is cut between the host's commit and its acknowledgement, again and again, from seeds.

use crate::stories::{runs, says};
use pilothouse_domain::{Mode, Outcome, ThreadId};
use pilothouse_engine::Ticket;
use pilothouse_tests::{Device, Proxy, Seed, World, proxy::Way, seed, until};

/// Cuts on one thread; then a new one, so that conversations stay short.
const PER_THREAD: u64 = 8;

struct Cuts {
    world: World,
    device: Device,
    proxy: Proxy,
}

/// What is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The host has committed; its acknowledgement is held and lost.
    Committed,
    /// The same, and what the command leads to has reached the model.
    TookEffect,
    /// The host has committed, and the next connection is cut as well, somewhere.
    Twice { bytes: u64 },
    /// Somewhere inside the command's own frame or right after it: nobody knows whether it arrived.
    Somewhere { bytes: u64 },
}

impl Moment {
    fn of(seed: &mut Seed) -> Self {
        match seed.below(6) {
            0 | 1 => Self::Committed,
            2 => Self::TookEffect,
            3 => Self::Twice {
                bytes: 1 + seed.below(4000),
            },
            _ => Self::Somewhere {
                bytes: 1 + seed.below(900),
            },
        }
    }
}

#[test]
fn case_24_a_command_cut_off_between_commit_and_acknowledgement_takes_effect_exactly_once() {
    let world = World::start();
    let (device, proxy) = world.device_behind_proxy("phone");
    let cuts = Cuts {
        world,
        device,
        proxy,
    };
    let mut thread = None;
    let mut ordinal = 0;
    for number in 0..seed::count("PILOTHOUSE_CUTS", 60) {
        if number % PER_THREAD == 0 {
            thread = Some(cuts.device.new_thread("codex", Mode::Ask));
            ordinal = 0;
        }
        let thread = thread.unwrap();
        let mut seed = Seed::new(number);
        let moment = Moment::of(&mut seed);
        // A failure names its seed.
        let name = format!("cut-{number}");
        eprintln!("{name}: {moment:?}");
        if seed.coin() {
            ordinal += cuts.message(thread, &name, moment, 1 + seed.below(2));
            cuts.device.completed(thread, ordinal);
        } else {
            ordinal += 1;
            cuts.answer(thread, &name, moment);
            cuts.device.completed(thread, ordinal);
            assert_eq!(
                cuts.world.text_of(&format!("{name}.txt")),
                Some(format!("{name}\n")),
                "{name}"
            );
            assert_eq!(cuts.world.model.steps(&name, 1), 1, "{name}");
        }
        cuts.device.same_as(&cuts.world.host, thread);
    }
    cuts.world.host.verify();
}

impl Cuts {
    /// Sends messages and cuts; says how many runs that made.
    fn message(&self, thread: ThreadId, name: &str, moment: Moment, count: u64) -> u32 {
        let names: Vec<_> = (0..count).map(|index| format!("{name}-{index}")).collect();
        for name in &names {
            self.world.model.script(name, &says("Heard."));
        }
        let say = || {
            names
                .iter()
                .map(|name| {
                    self.device
                        .say(thread, &format!("[[script:{name}]] [[id:{name}]]"))
                })
                .collect()
        };
        self.cut(moment, say, &names[0], 1);
        for name in &names {
            until(&format!("the model to be asked for {name}"), || {
                let mark = self.world.model.mark(name);
                if mark.requests > 0 {
                    Ok(())
                } else {
                    Err(format!("{mark:?}"))
                }
            });
        }
        self.device.idle(thread);
        for name in &names {
            let mark = self.world.model.mark(name);
            assert_eq!(
                (mark.first_steps, mark.most_in_one_request),
                (1, 1),
                "{name}, {moment:?}: {mark:?}"
            );
        }
        u32::try_from(count).unwrap()
    }

    /// Lets codex ask, answers and cuts.
    fn answer(&self, thread: ThreadId, name: &str, moment: Moment) {
        self.world
            .model
            .script(name, &runs(&format!("echo {name} >> {name}.txt")));
        self.device.accepted(
            &self
                .device
                .say(thread, &format!("[[script:{name}]] [[id:{name}]]")),
        );
        let row = self.device.asked(thread);
        self.cut(moment, || vec![self.device.choose(&row, "accept")], name, 2);
        self.device.wait("the request to be closed", |seen| {
            seen.inbox.is_empty().then_some(())
        });
    }

    /// Submits, cuts at the moment, and waits for the outcomes.
    fn cut(&self, moment: Moment, submit: impl FnOnce() -> Vec<Ticket>, script: &str, effect: u64) {
        // A cut of the last round that never came must not fall into this one.
        self.proxy.resume();
        until("a connection", || {
            let connected = self.proxy.is_connected();
            connected.then_some(()).ok_or_else(|| "none".to_owned())
        });
        self.device.synchronised();
        let host = &self.world.host;
        // Commands of one thread go one after the other: only the first can be committed while its answer is held.
        let committed = |first: &Ticket| {
            until("the host to commit", || {
                host.outcome(first.command_id())
                    .ok_or_else(|| "no outcome".to_owned())
            });
        };
        let tickets = if let Moment::Somewhere { bytes } = moment {
            self.proxy.cut_after(Way::Up, bytes);
            submit()
        } else {
            self.proxy.hold(Way::Down);
            let tickets = submit();
            committed(&tickets[0]);
            if moment == Moment::TookEffect {
                self.world.model.reached(script, effect);
            }
            assert!(
                tickets.iter().all(|ticket| ticket.poll_outcome().is_none()),
                "the acknowledgement was held"
            );
            self.proxy.cut();
            if let Moment::Twice { bytes } = moment {
                self.proxy.cut_after(Way::Down, bytes);
            }
            tickets
        };
        self.device
            .offline_or(|| tickets.iter().all(|ticket| ticket.poll_outcome().is_some()));
        self.device.network_changes();
        for ticket in &tickets {
            self.device.accepted(ticket);
            let outcome = host.outcome(ticket.command_id());
            assert!(
                matches!(outcome, Some(Outcome::Accepted { .. })),
                "{outcome:?}"
            );
        }
    }
}
