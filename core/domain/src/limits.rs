//! Bounds of the domain. Each is a cap checked before append, never a silent cut.

/// Requests that may be open in one thread at a time (DESIGN section 4).
pub const OPEN_REQUESTS: usize = 128;
/// Runs that may wait in one thread's queue.
pub const QUEUED_RUNS: usize = 64;
/// Live execution nodes and open items together in one thread.
pub const LIVE_NODES: usize = 256;
/// Of those, live nodes of the tree (root turn and subagents).
pub const LIVE_TREE: usize = 64;
/// Checkpoints, ended provider threads and pending transfers that the state remembers, each.
pub const REMEMBERED: usize = 16;
/// Runs that one rollback takes back.
pub const ROLLED_BACK: usize = 256;
/// Models of an agent that are kept, and efforts of each; of more the first ones are.
pub const OFFERED_MODELS: usize = 64;
/// Turns that are read back of a conversation that is imported; of a longer one the last are.
pub const IMPORTED_TURNS: u32 = 64;
/// Conversations that a host lists at a time.
pub const LISTED_CONVERSATIONS: u32 = 50;
/// Files that a host lists at a time.
pub const LISTED_FILES: u32 = 50;
/// Commands of an agent's own that are kept; of more the first ones are.
pub const OFFERED_COMMANDS: usize = 64;
/// Bytes of such a command's name, description and argument hint, each.
pub const COMMAND_WORDS: usize = 200;
/// Limits of an account that are kept.
pub const ACCOUNT_LIMITS: usize = 8;
/// Bytes of a model's or an effort's name.
pub const MODEL_NAME: usize = 200;
/// Bytes of a body that stands in an event; a longer one is stored by hash with head and tail.
pub const INLINE_BODY: usize = 4 * 1024;
/// Bytes of head and of tail kept beside the hash of a stored body.
pub const BODY_EDGE: usize = 1024;
/// Bytes of streamed text up to which it is put together in memory when its item closes; a longer one becomes a body where
/// it lies.
pub const STREAMED_WHOLE: u64 = 64 * 1024;
/// Bytes of one item's stored text; the middle is dropped and counted.
pub const ITEM_TEXT: usize = 64 * 1024 * 1024;
/// Bytes of a person's message.
pub const MESSAGE_TEXT: usize = 256 * 1024;
/// Files that go with one message.
pub const ATTACHMENTS: usize = 20;
/// Bytes of one of them.
pub const ATTACHMENT_BYTES: u64 = 10 * 1024 * 1024;
/// Characters of a file's name.
pub const FILE_NAME_CHARS: usize = 200;
/// Characters of a title.
pub const TITLE_CHARS: usize = 200;
/// Bytes of a request's subject; a larger one is still a request, but never approvable in one tap.
pub const SUBJECT_TEXT: usize = 512 * 1024;
/// Bytes of a subject as it stands in an event, JSON in JSON: of a larger one texts and lists are shortened, and it is incomplete.
/// A wire frame holds it with what else its entry tells.
pub const SUBJECT_ENCODED: usize = 640 * 1024;
/// Bytes of any other event; of a larger one texts and lists are shortened, and its entry says so.
pub const EVENT_ENCODED: usize = 256 * 1024;
/// Characters of a subject that the expanded notification surely shows in full: beyond, no one-tap approval.
/// A notification's expanded text is cut by the platform somewhere past 5 lines of about 40 characters
/// (CASES 8 uses a command of 200 characters with a harmless prefix).
pub const ONE_TAP_CHARS: usize = 160;
/// Lines of a subject that the expanded notification surely shows in full.
pub const ONE_TAP_LINES: usize = 5;
/// Bytes of an encoded `ThreadState` whatever the thread's length.
pub const STATE_BYTES: usize = 50 * 1024;
/// Age after which an answer in a device's outbox expires unsent, ms.
pub const ANSWER_EXPIRES_MS: u64 = 15 * 60 * 1000;
/// Age after which a message in a device's outbox expires unsent, ms.
pub const MESSAGE_EXPIRES_MS: u64 = 48 * 60 * 60 * 1000;
/// How long a ledger keeps outcomes by command id, ms (30 days): longer than any outbox entry lives.
pub const OUTCOME_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// Bytes of one wire frame.
pub const WIRE_FRAME: usize = 1024 * 1024;
