//! The process that plays a recording: frames of the client on its input, the agent's on its output.

use super::{Arguments, Player, Recording, ReplayError};
use std::{
    io::{BufRead as _, Write as _},
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

/// Plays `FILE [--speed N]` until its input ends.
///
/// # Errors
/// If the recording cannot be played, or nobody reads the output any more.
pub fn play(command: &[String]) -> Result<(), ReplayError> {
    let arguments = Arguments::read(command)?;
    let recording = Recording::read(Path::new(&arguments.file))?;
    let began = Instant::now();
    let now_ms = || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    // Ids of one life are not those of another.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let life = format!("{:x}", since.unwrap_or_default().as_micros());
    let mut player = Player::new(recording, &life, arguments.speed);
    let pipe = |problem: std::io::Error| ReplayError::Pipe {
        problem: problem.to_string(),
    };
    let (lines, input) = mpsc::sync_channel(64);
    std::thread::Builder::new()
        .name("replay-input".to_owned())
        .spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        })
        .map_err(pipe)?;
    loop {
        let wait = match player.due_ms() {
            Some(due) => Duration::from_millis(due.saturating_sub(now_ms())),
            None => Duration::from_secs(3600),
        };
        match input.recv_timeout(wait) {
            // What is no frame is nobody's.
            Ok(line) => {
                if let Ok(frame) = serde_json::from_str(&line) {
                    player.receive(&frame, now_ms());
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        let frames = player.take(now_ms());
        if !frames.is_empty() {
            let mut out = std::io::stdout().lock();
            for frame in frames {
                writeln!(out, "{frame}").map_err(pipe)?;
            }
            out.flush().map_err(pipe)?;
        }
    }
}
