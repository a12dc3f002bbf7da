//! One connection of the small host.

use super::*;
use pilothouse_wire::duplex::Frame;

/// One connection.
pub(super) struct Session {
    world: Arc<Mutex<World>>,
    changed: watch::Sender<u64>,
    device: DeviceId,
    outgoing: Outgoing<HostMessage>,
    subs: BTreeMap<SubId, (ThreadId, u64)>,
    feed: Option<(SubId, u64)>,
    at: usize,
    kicks: u64,
    breaks: u64,
}

impl Session {
    pub(super) async fn run(
        established: Established,
        world: Arc<Mutex<World>>,
        mut versions: watch::Receiver<u64>,
        changed: watch::Sender<u64>,
    ) {
        let (peer, key, binding) = (
            established.peer_hash(),
            established.peer,
            established.binding.clone(),
        );
        let (mut outgoing, mut incoming) = established.host_ends();
        let known = world.lock().unwrap().paired.get(&peer).copied();
        let opening = match read_opening(&mut incoming, known.is_some()).await {
            Ok(opening) => opening,
            Err(error) => {
                if let Some(reason) = error.bye() {
                    say_bye(&mut outgoing, reason).await;
                }
                return;
            }
        };
        let encoding;
        let device = match opening {
            Opening::Pair(pair) => {
                let answer = {
                    let mut world = world.lock().unwrap();
                    let device = DeviceId::from_bytes([world.paired.len() as u8 + 1; 16]);
                    world
                        .secrets
                        .redeem(&pair.proof, &binding, &key, 0)
                        .map(|()| {
                            world.paired.insert(peer, device);
                            Paired {
                                device_id: device,
                                host_id: HOST,
                                host_name: "studio".to_owned(),
                                scopes: Scope::ALL.to_vec(),
                            }
                        })
                };
                answer_pair(&mut outgoing, answer).await;
                return;
            }
            Opening::Hello(hello) => {
                let encodes = world.lock().unwrap().encodes;
                encoding = Encoding::choose(&hello.encodings).filter(|_| encodes);
                known.unwrap()
            }
        };
        let (mut welcome, kicks, at) = {
            let mut world = world.lock().unwrap();
            world.connections += 1;
            (welcome(&world, device), world.kicks, world.happened.len())
        };
        welcome.encoding = encoding;
        let welcome = HostMessage::Welcome(Box::new(welcome));
        if outgoing.send(&welcome).await.is_err() {
            return;
        }
        let (outgoing, mut incoming) = (outgoing.encoded(encoding), incoming.encoded(encoding));
        let mut session = Self {
            world,
            changed,
            device,
            outgoing,
            subs: BTreeMap::new(),
            feed: None,
            at,
            kicks,
            breaks: 0,
        };
        loop {
            tokio::select! {
                message = incoming.receive() => match message {
                    Ok(message) => if session.take(message).await.is_none() { return },
                    Err(ReceiveError::Decode(error)) => panic!("{error}"),
                    Err(_) => return,
                },
                changed = versions.changed() => {
                    if changed.is_err() || session.push().await.is_none() { return }
                }
            }
        }
    }

    async fn say(&mut self, message: HostMessage) -> Option<()> {
        let newer = self.world.lock().unwrap().newer;
        if let Some(text) = newer.and_then(|thread| of_tomorrow(&message, thread)) {
            return self.outgoing.frames().send(Frame::Text(text)).await.ok();
        }
        self.outgoing.send(&message).await.ok()
    }

    fn fails(&self) -> bool {
        let mut world = self.world.lock().unwrap();
        let fails = world.failures > 0;
        world.failures = world.failures.saturating_sub(1);
        fails
    }

    async fn fail(&mut self, sub: SubId) -> Option<()> {
        self.say(HostMessage::Error(WireError {
            about: ErrorAbout::Sub { sub },
            code: ErrorCode::Failed,
            message: "the log could not be read".to_owned(),
            next_step: "try again".to_owned(),
        }))
        .await
    }

    /// Sends an entry from far ahead, if it is told to.
    async fn leave_a_gap(&mut self, sub: SubId, thread: ThreadId) -> Option<()> {
        let entry = {
            let mut world = self.world.lock().unwrap();
            world.followed.push(std::time::Instant::now());
            if world.gaps == 0 {
                return Some(());
            }
            world.gaps -= 1;
            let mut entry = world.threads[&thread].entries.last()?.clone();
            entry.seq += 5;
            entry
        };
        let entries = vec![entry];
        self.say(HostMessage::Entries { sub, entries }).await
    }

    async fn cut(&mut self) {
        let _ = self
            .outgoing
            .frames()
            .close(Close::new(CloseCode::GoingAway, ""))
            .await;
    }

    async fn take(&mut self, message: DeviceMessage) -> Option<()> {
        match message {
            DeviceMessage::SubscribeFeed { sub, .. } | DeviceMessage::Subscribe { sub, .. }
                if self.fails() =>
            {
                self.fail(sub).await
            }
            DeviceMessage::SubscribeFeed { sub, cursor } => {
                let (parts, cut) = {
                    let mut world = self.world.lock().unwrap();
                    world.feed_asked.push(cursor);
                    let good = cursor
                        .filter(|at| at.epoch == world.epoch && at.revision <= world.revision);
                    let update = world.feed(good.map_or(0, |at| at.revision), good.is_none());
                    self.feed = Some((sub, update.cursor.revision));
                    (world.feed_parts(update), world.feed_cut.take())
                };
                for (n, part) in parts.into_iter().enumerate() {
                    if cut == Some(n) {
                        self.cut().await;
                        return None;
                    }
                    self.say(HostMessage::Feed {
                        sub,
                        update: Box::new(part),
                    })
                    .await?;
                }
                Some(())
            }
            DeviceMessage::Subscribe {
                sub,
                thread,
                cursor,
                ..
            } => {
                let (answer, entries) = {
                    let world = self.world.lock().unwrap();
                    let answer = world.subscribed(thread, cursor);
                    let from = answer
                        .as_ref()
                        .filter(|a| a.gap.is_none())
                        .and(cursor)
                        .map(|at| at.seq as usize);
                    let entries = from.map(|from| world.threads[&thread].entries[from..].to_vec());
                    (answer, entries.unwrap_or_default())
                };
                let Some(answer) = answer else {
                    return self
                        .say(HostMessage::Error(WireError {
                            about: ErrorAbout::Sub { sub },
                            code: ErrorCode::NotFound,
                            message: "no such thread".to_owned(),
                            next_step: "look at the list".to_owned(),
                        }))
                        .await;
                };
                self.subs.insert(sub, (thread, answer.high_water.seq));
                self.say(HostMessage::Subscribed {
                    sub,
                    thread,
                    answer: Box::new(answer),
                })
                .await?;
                if !entries.is_empty() {
                    self.say(HostMessage::Entries { sub, entries }).await?;
                }
                self.leave_a_gap(sub, thread).await
            }
            DeviceMessage::Unsubscribe { sub } => {
                self.subs.remove(&sub);
                Some(())
            }
            DeviceMessage::Command { command } => {
                let (outcome, cut, mute) = {
                    let mut world = self.world.lock().unwrap();
                    let outcome = world.command(
                        Actor::Device {
                            device: self.device,
                        },
                        &command,
                    );
                    let cut = world.cuts > 0;
                    world.cuts = world.cuts.saturating_sub(1);
                    world.version += 1;
                    self.changed.send_replace(world.version);
                    (outcome, cut, world.mute)
                };
                if cut {
                    self.cut().await;
                    return None;
                }
                if mute {
                    return Some(());
                }
                self.say(HostMessage::Outcome {
                    command_id: command.id,
                    outcome: Some(outcome),
                })
                .await
            }
            DeviceMessage::OutcomeQuery { command_ids } => {
                for command_id in command_ids {
                    let outcome = {
                        let mut world = self.world.lock().unwrap();
                        world.asked += 1;
                        world.outcomes.get(&command_id).cloned()
                    };
                    self.say(HostMessage::Outcome {
                        command_id,
                        outcome,
                    })
                    .await?;
                }
                Some(())
            }
            DeviceMessage::Query { id, query } => {
                let answer = match query {
                    Query::OlderItems { .. } => {
                        QueryAnswer::Result(QueryResult::OlderItems(OlderItems {
                            rows: Vec::new(),
                            older: false,
                        }))
                    }
                    Query::Blob { hash, offset, len } => {
                        let world = self.world.lock().unwrap();
                        let chunk = |body: &Vec<u8>| {
                            let start = (offset as usize).min(body.len());
                            let end = (start + len.min(BLOB_CHUNK) as usize).min(body.len());
                            BlobChunk {
                                hash,
                                offset,
                                total: body.len() as u64,
                                data: Base64(body[start..end].to_vec()),
                            }
                        };
                        match world.bodies.get(&hash).map(chunk) {
                            Some(chunk) => QueryAnswer::Result(QueryResult::Blob(chunk)),
                            None => QueryAnswer::Error(WireError {
                                about: ErrorAbout::Query { id },
                                code: ErrorCode::NotFound,
                                message: "no such text".to_owned(),
                                next_step: String::new(),
                            }),
                        }
                    }
                    _ => QueryAnswer::Error(WireError {
                        about: ErrorAbout::Query { id },
                        code: ErrorCode::NotFound,
                        message: "no such text".to_owned(),
                        next_step: String::new(),
                    }),
                };
                self.say(HostMessage::Result { id, answer }).await
            }
            DeviceMessage::Ping { nonce } => {
                self.say(HostMessage::Pong {
                    nonce,
                    host_time_ms: 0,
                })
                .await
            }
            DeviceMessage::Bye { .. } => None,
            DeviceMessage::Hello(_) | DeviceMessage::Pair(_) => None,
        }
    }

    async fn push(&mut self) -> Option<()> {
        let (kicked, revoked, happened) = {
            let world = self.world.lock().unwrap();
            let happened = world.happened[self.at..].to_vec();
            self.at = world.happened.len();
            (world.kicks != self.kicks, world.revoked, happened)
        };
        if revoked {
            say_bye(&mut self.outgoing, ByeReason::Revoked).await;
            return None;
        }
        if kicked {
            self.cut().await;
            return None;
        }
        let breaks = self.world.lock().unwrap().breaks;
        if std::mem::replace(&mut self.breaks, breaks) != breaks {
            let subs = std::mem::take(&mut self.subs).into_keys();
            for sub in subs.chain(self.feed.take().map(|(sub, _)| sub)) {
                self.fail(sub).await?;
            }
        }
        for happened in happened {
            match happened {
                Happened::Live(thread, live) => {
                    if self.subs.values().any(|(of, _)| *of == thread) {
                        self.say(HostMessage::Live { thread, live }).await?;
                    }
                }
                Happened::Entries(thread, seq) => {
                    let subs: Vec<(SubId, u64)> = self
                        .subs
                        .iter()
                        .filter(|(_, (of, seen))| *of == thread && *seen < seq)
                        .map(|(sub, (_, seen))| (*sub, *seen))
                        .collect();
                    for (sub, seen) in subs {
                        let entries = {
                            let mut world = self.world.lock().unwrap();
                            let lost = std::mem::take(&mut world.skips) as usize;
                            let from = (seen as usize + lost).min(seq as usize);
                            world.threads[&thread].entries[from..seq as usize].to_vec()
                        };
                        self.subs.insert(sub, (thread, seq));
                        if !entries.is_empty() {
                            self.say(HostMessage::Entries { sub, entries }).await?;
                        }
                    }
                }
            }
        }
        if let Some((sub, seen)) = self.feed {
            let update = {
                let world = self.world.lock().unwrap();
                (!world.feed_held && world.revision > seen).then(|| world.feed(seen, false))
            };
            if let Some(update) = update {
                self.feed = Some((sub, update.cursor.revision));
                self.say(HostMessage::Feed {
                    sub,
                    update: Box::new(update),
                })
                .await?;
            }
        }
        Some(())
    }
}

fn welcome(world: &World, device: DeviceId) -> Welcome {
    Welcome {
        protocol: 1,
        host_id: HOST,
        host_name: "studio".to_owned(),
        software: "fake".to_owned(),
        epoch: world.epoch,
        limits: Limits::default(),
        commands: CommandBody::NAMES
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        log_formats: vec![pilothouse_domain::entry::LOG_FORMAT],
        state_version: pilothouse_domain::state::STATE_VERSION,
        decide_version: pilothouse_domain::state::DECIDE_VERSION,
        policy: policy(),
        device_id: device,
        scopes: Scope::ALL.to_vec(),
        host_time_ms: 0,
        encoding: None,
    }
}

/// A message about a thread as a newer host writes it, in a mode that came later; `None` for one that says nothing of it.
fn of_tomorrow(message: &HostMessage, thread: ThreadId) -> Option<String> {
    let id = serde_json::to_value(thread).unwrap();
    let mut written = serde_json::to_value(message).unwrap();
    let mode = match message {
        HostMessage::Feed { .. } => {
            let threads = written["threads"].as_array_mut().unwrap();
            let found = threads
                .iter_mut()
                .find(|line| line["summary"]["thread"] == id)?;
            &mut found["summary"]["mode"]
        }
        HostMessage::Subscribed {
            thread: of, answer, ..
        } if *of == thread => {
            answer.snapshot.as_ref()?;
            &mut written["snapshot"]["state"]["meta"]["selection"]["mode"]
        }
        _ => return None,
    };
    assert!(mode.is_string(), "{mode}");
    *mode = "dreaming".into();
    Some(written.to_string())
}
