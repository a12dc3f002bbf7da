//! A seed's story: what the agent will do at each prompt, and what people, networks and accidents do meanwhile. It follows
//! from the seed alone; what each action meets depends on the machine.

use pilothouse_tests::Seed;
use serde_json::{Value, json};

/// Which scripted agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Codex,
    Acp,
}

impl Family {
    /// The name of the agent in `host.toml`.
    pub(crate) fn agent(self) -> &'static str {
        match self {
            Self::Codex => "scripted-codex",
            Self::Acp => "scripted-acp",
        }
    }

    /// Its protocol in `host.toml`.
    pub(crate) fn protocol(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Acp => "acp",
        }
    }
}

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Start,
    Queue,
    Steer,
    Restart,
}

/// What a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Yes,
    No,
    Cancel,
}

impl Choice {
    /// As the agent's log calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Cancel => "cancel",
        }
    }
}

/// Something that happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Create {
        device: usize,
        thread: usize,
    },
    Send {
        device: usize,
        thread: usize,
        message: usize,
        how: How,
    },
    /// The same from another process on the device's data directory, which then ends, or is killed.
    SendBeside {
        device: usize,
        thread: usize,
        message: usize,
        kill: bool,
    },
    /// The `nth` open request is answered by one device, and at the same moment by another.
    Answer {
        device: usize,
        nth: usize,
        choice: Choice,
        also: Option<(usize, Choice)>,
    },
    Interrupt {
        device: usize,
        thread: usize,
        hold: bool,
    },
    Unqueue {
        device: usize,
        thread: usize,
    },
    Release {
        device: usize,
        thread: usize,
    },
    KillHost {
        down_ms: u64,
    },
    KillAgent {
        nth: usize,
    },
    KillDevice {
        device: usize,
        down_ms: u64,
    },
    /// The host's process stands still.
    FreezeHost {
        ms: u64,
    },
    FreezeDevice {
        device: usize,
        ms: u64,
    },
    FreezeAgent {
        nth: usize,
        ms: u64,
    },
    Cut {
        device: usize,
    },
    CutAfter {
        device: usize,
        up: bool,
        bytes: u64,
    },
    /// Bytes of one direction go nowhere for a while.
    Hold {
        device: usize,
        up: bool,
    },
    /// The device loses its connection; what it had sent reaches the host after what it sends over the next one.
    Strand {
        device: usize,
    },
    /// Everything that was kept back passes.
    Resume {
        device: usize,
    },
    Refuse {
        device: usize,
        ms: u64,
    },
    /// What a connection's device sent first is sent once more by somebody else.
    Replay {
        device: usize,
    },
    FillHostDisk,
    FreeHostDisk,
    /// The disk of the first device.
    FillDeviceDisk,
    FreeDeviceDisk,
}

/// A story.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    pub(crate) family: Family,
    pub(crate) devices: usize,
    pub(crate) threads: usize,
    /// Whether the disks of the host and of the first device are small.
    pub(crate) small_disks: bool,
    /// Steps of each message, for the agent's script.
    pub(crate) messages: Vec<Value>,
    /// Actions with the pause before each, ms.
    pub(crate) actions: Vec<(u64, Action)>,
}

/// Messages that a story may send.
const MESSAGES: usize = 14;

/// The name of a message, which its text and the agent's log carry.
pub(crate) fn name(message: usize) -> String {
    format!("m{message}")
}

impl Story {
    /// The story of a seed.
    pub(crate) fn of(seed: u64, families: &[Family], mounts: bool) -> Self {
        let mut random = Seed::new(seed);
        let family = families[random.below(families.len() as u64) as usize];
        let devices = 2 + usize::from(random.below(3) == 0);
        let threads = 1 + random.below(3) as usize;
        let small_disks = random.below(4) == 0 && mounts;
        let messages = (0..MESSAGES)
            .map(|message| steps(&mut random, &name(message)))
            .collect();
        let mut story = Self {
            seed,
            family,
            devices,
            threads,
            small_disks,
            messages,
            actions: Vec::new(),
        };
        let mut next = 0;
        for thread in 0..threads {
            let device = story.device(&mut random);
            story.add(&mut random, Action::Create { device, thread });
            let device = story.device(&mut random);
            story.send(&mut random, device, thread, &mut next);
        }
        let count = 22 + random.below(14);
        for _ in 0..count {
            story.step(&mut random, &mut next);
        }
        story
    }

    /// A story without accidents, to see faults that are planted.
    pub(crate) fn calm(family: Family) -> Self {
        let steps =
            json!([{"say": "m0 begins. ", "pieces": 3}, {"ask": "m0.1"}, {"say": "m0 ends. "}]);
        let (device, thread) = (0, 0);
        let send = Action::Send {
            device,
            thread,
            message: 0,
            how: How::Start,
        };
        Self {
            seed: 0,
            family,
            devices: 2,
            threads: 1,
            small_disks: false,
            messages: vec![steps],
            actions: vec![(0, Action::Create { device, thread }), (0, send)],
        }
    }

    fn device(&self, random: &mut Seed) -> usize {
        random.below(self.devices as u64) as usize
    }

    fn add(&mut self, random: &mut Seed, action: Action) {
        let pause = match random.below(10) {
            0..=4 => random.below(30),
            5..=8 => random.below(150),
            _ => random.below(500),
        };
        self.actions.push((pause, action));
    }

    fn send(&mut self, random: &mut Seed, device: usize, thread: usize, next: &mut usize) {
        if *next == MESSAGES {
            return;
        }
        if random.below(8) == 0 {
            let action = Action::SendBeside {
                device,
                thread,
                message: *next,
                kill: random.coin(),
            };
            *next += 1;
            return self.add(random, action);
        }
        let how = match random.below(10) {
            0..=3 => How::Start,
            4..=5 => How::Queue,
            6..=8 => How::Steer,
            _ => How::Restart,
        };
        let message = *next;
        *next += 1;
        let action = Action::Send {
            device,
            thread,
            message,
            how,
        };
        self.add(random, action);
    }

    fn step(&mut self, random: &mut Seed, next: &mut usize) {
        let device = self.device(random);
        let thread = random.below(self.threads as u64) as usize;
        let choice = |random: &mut Seed| match random.below(8) {
            0..=4 => Choice::Yes,
            5..=6 => Choice::No,
            _ => Choice::Cancel,
        };
        let action = match random.below(100) {
            0..=21 => return self.send(random, device, thread, next),
            22..=45 => {
                let choice_here = choice(random);
                let other = (device + 1) % self.devices;
                let also = random.coin().then(|| (other, choice(random)));
                Action::Answer {
                    device,
                    nth: random.below(3) as usize,
                    choice: choice_here,
                    also,
                }
            }
            46..=51 => Action::Interrupt {
                device,
                thread,
                hold: random.coin(),
            },
            52..=54 => Action::Unqueue { device, thread },
            55..=57 => Action::Release { device, thread },
            58..=63 => Action::KillHost {
                down_ms: random.below(200),
            },
            64..=68 => Action::KillAgent {
                nth: random.below(4) as usize,
            },
            69..=73 => Action::KillDevice {
                device,
                down_ms: random.below(200),
            },
            74 => Action::FreezeHost {
                ms: random.below(400),
            },
            75 => Action::FreezeDevice {
                device,
                ms: random.below(400),
            },
            76..=77 => Action::FreezeAgent {
                nth: random.below(4) as usize,
                ms: random.below(1200),
            },
            78..=80 => Action::Cut { device },
            81..=84 => Action::CutAfter {
                device,
                up: random.coin(),
                bytes: 1 + random.below(3000),
            },
            85..=87 => Action::Hold {
                device,
                up: random.coin(),
            },
            88..=90 => Action::Strand { device },
            91..=93 => Action::Resume { device },
            94 => Action::Refuse {
                device,
                ms: random.below(300),
            },
            95 => Action::Replay { device },
            _ if !self.small_disks => return self.send(random, device, thread, next),
            96..=97 => Action::FillHostDisk,
            98 => Action::FillDeviceDisk,
            _ if random.coin() => Action::FreeHostDisk,
            _ => Action::FreeDeviceDisk,
        };
        self.add(random, action);
    }

    /// The agent's script.
    pub(crate) fn script(&self) -> Value {
        let prompts: serde_json::Map<_, _> = self
            .messages
            .iter()
            .enumerate()
            .map(|(message, steps)| (name(message), steps.clone()))
            .collect();
        json!({"prompts": prompts, "default": [{"say": "Fine."}]})
    }
}

/// What the agent does at a message.
fn steps(random: &mut Seed, name: &str) -> Value {
    let mut steps = Vec::new();
    let say = |random: &mut Seed| {
        let words = 1 + random.below(60);
        let text: String = (0..words).map(|n| format!("{name} says {n}. ")).collect();
        json!({"say": text, "pieces": 1 + random.below(12), "every": random.below(20)})
    };
    let count = 1 + random.below(3);
    for step in 0..count {
        steps.push(match random.below(12) {
            0..=2 => say(random),
            3..=5 => json!({"ask": format!("{name}.{step}")}),
            6 => json!({"question": format!("{name}.{step}")}),
            7 => json!({"tool": format!("run {name}.{step}"), "output": "done\n".repeat(1 + random.below(50) as usize), "ms": random.below(150)}),
            8 => json!({"think": format!("{name} thinks")}),
            9 => json!({"plan": ["look", "act", name]}),
            10 => json!({"pause": random.below(400)}),
            _ => say(random),
        });
    }
    match random.below(24) {
        0..=1 => steps.push(json!({"hang": true})),
        4 => steps.push(json!({"fail": format!("{name} cannot")})),
        2 => steps.push(json!({"exit": 3})),
        3 => steps.push(
            json!({"say": format!("{name} at length. ").repeat(1500), "pieces": 20, "every": 2}),
        ),
        _ => steps.push(say(random)),
    }
    Value::Array(steps)
}
