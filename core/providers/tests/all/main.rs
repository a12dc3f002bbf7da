//! The adapters against what agents really do: recordings, the real program, and programs that misbehave.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by failing"
)]

mod account;
mod acp_asking;
mod acp_bounds;
mod acp_codec;
mod acp_hostile;
mod acp_misbehaving;
mod acp_recordings;
mod acp_updates;
mod asked_again;
mod asked_of_us;
mod capabilities;
mod capability_evidence;
mod capability_tests;
mod claude_asking;
mod claude_hostile;
mod claude_labels;
mod claude_misbehaving;
mod claude_modes;
mod claude_real;
mod claude_recordings;
mod claude_shown;
mod claude_whole;
mod claude_world;
mod codex_asking;
mod codex_far;
mod codex_pages;
mod contracts;
mod crowded;
mod damaged;
mod descendants;
mod every;
mod exits;
mod exits_scripts;
mod fuzz;
mod heard;
mod hostile;
mod labels;
mod mcp;
mod mcp_web;
mod misbehaving;
#[path = "../../../../tests/support/mutate.rs"]
mod mutate;
mod opencode_commands;
mod opencode_deleted;
mod opencode_directory;
mod opencode_exits;
#[path = "../../../../tests/support/opencode_home.rs"]
mod opencode_home;
mod opencode_hostile;
mod opencode_misbehaving;
mod opencode_real;
mod opencode_recordings;
mod opencode_replay;
mod opencode_stage;
mod opencode_still;
mod opencode_taken_up;
mod opencode_whole;
mod pi_dialogs;
mod pi_hostile;
mod pi_late;
mod pi_misbehaving;
mod pi_paths;
mod pi_real;
mod pi_recordings;
mod pi_unasked;
mod pi_whole;
mod pi_world;
mod real;
mod real_whole;
mod recordings;
mod replay;
mod replaying;
mod silent;
mod stage;
mod support;
mod thread;
mod unchosen;
