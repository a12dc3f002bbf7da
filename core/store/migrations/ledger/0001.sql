-- The ledger: one file per host (or per device in direct mode), one writer.
-- JSON is TEXT, ids are 16-byte BLOBs, hashes 32-byte BLOBs, times Unix ms.

-- Which life of the data this is, and how often it was opened.
CREATE TABLE ledger (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  epoch BLOB NOT NULL,
  boot  INTEGER NOT NULL
) STRICT;

-- Former and present epochs.
CREATE TABLE epochs (
  epoch      BLOB PRIMARY KEY,
  started_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Threads get a small number, which the large tables use; the log's head stands here.
CREATE TABLE threads (
  number INTEGER PRIMARY KEY,
  thread BLOB NOT NULL UNIQUE,
  seq    INTEGER NOT NULL DEFAULT 0,
  chain  BLOB NOT NULL,
  live   INTEGER NOT NULL DEFAULT 0
) STRICT;
-- Threads that an agent's process serves: few.
CREATE INDEX threads_live ON threads (number) WHERE live = 1;

-- One row per entry. `place` = thread number * 2^40 + seq: a thread's entries lie together without a second index.
-- `hashes` = BLAKE3 of each event's bytes as they were appended; kept when a body is redacted.
CREATE TABLE entries (
  place        INTEGER PRIMARY KEY,
  epoch        BLOB NOT NULL,
  log_format   INTEGER NOT NULL,
  host_time_ms INTEGER NOT NULL,
  chain        BLOB NOT NULL,
  hashes       BLOB NOT NULL,
  cause        TEXT NOT NULL,
  events       TEXT NOT NULL
) STRICT;

-- `version` is that of the state's shape; a state of another version is rebuilt from the log.
CREATE TABLE states (
  thread  INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,
  epoch   BLOB NOT NULL,
  seq     INTEGER NOT NULL,
  chain   BLOB NOT NULL,
  json    TEXT NOT NULL
) STRICT;

-- What screens read. `run` and `arrival` are an item's position. `open` is set on open requests:
-- 1 approval waits, 2 question waits, 3 an answer is on its way.
CREATE TABLE rows (
  row     INTEGER PRIMARY KEY,
  thread  INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  id      BLOB NOT NULL,
  run     INTEGER,
  arrival INTEGER,
  open    INTEGER,
  json    TEXT NOT NULL,
  UNIQUE (thread, kind, id)
) STRICT;
CREATE INDEX rows_items ON rows (thread, run, arrival) WHERE arrival IS NOT NULL;
CREATE INDEX rows_open ON rows (open, thread) WHERE open IS NOT NULL;
-- Requests by the item they are about (6 is the kind of a request).
CREATE INDEX rows_about ON rows (thread, json_extract(json, '$.item')) WHERE kind = 6;

-- Text of items that are still open, in the pieces in which it was saved. `kept` of `ends_at` bytes are left; what is
-- missing was cut out right behind `head_ends_at`.
CREATE TABLE open_texts (
  number       INTEGER PRIMARY KEY,
  item         BLOB NOT NULL UNIQUE,
  thread       INTEGER NOT NULL,
  starts_at    INTEGER NOT NULL,
  ends_at      INTEGER NOT NULL,
  kept         INTEGER NOT NULL,
  dropped      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX open_texts_thread ON open_texts (thread);
CREATE TABLE open_chunks (
  open_text INTEGER NOT NULL,
  starts_at INTEGER NOT NULL,
  text      TEXT NOT NULL,
  PRIMARY KEY (open_text, starts_at)
) STRICT;

-- Bodies by hash, in pieces so that a range is read without the whole.
CREATE TABLE blobs (
  number INTEGER PRIMARY KEY,
  hash   BLOB NOT NULL UNIQUE,
  bytes  INTEGER NOT NULL
) STRICT;
CREATE TABLE blob_chunks (
  blob      INTEGER NOT NULL,
  starts_at INTEGER NOT NULL,
  bytes     BLOB NOT NULL,
  PRIMARY KEY (blob, starts_at)
) STRICT;

-- Identity bindings: native id -> app id. `target` is the app id's bytes, for the way back.
CREATE TABLE bindings (
  binding     INTEGER PRIMARY KEY,
  agent       TEXT NOT NULL,
  key         TEXT NOT NULL,
  thread      BLOB NOT NULL,
  target      BLOB NOT NULL,
  target_json TEXT NOT NULL,
  UNIQUE (agent, key)
) STRICT;
CREATE INDEX bindings_target ON bindings (target);

-- The summary feed. `json` is NULL for a tombstone.
CREATE TABLE summaries (
  thread   BLOB PRIMARY KEY,
  revision INTEGER NOT NULL UNIQUE,
  json     TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE outcomes (
  command      BLOB PRIMARY KEY,
  device       BLOB NOT NULL,
  thread       BLOB NOT NULL,
  device_seq   INTEGER NOT NULL,
  host_time_ms INTEGER NOT NULL,
  json         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX outcomes_time ON outcomes (host_time_ms);
-- Outlives pruned outcomes.
CREATE TABLE device_lines (
  device     BLOB NOT NULL,
  thread     BLOB NOT NULL,
  device_seq INTEGER NOT NULL,
  PRIMARY KEY (device, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE effects (
  number  INTEGER PRIMARY KEY,
  effect  BLOB NOT NULL UNIQUE,
  thread  BLOB NOT NULL,
  seq     INTEGER NOT NULL,
  json    TEXT NOT NULL,
  outcome TEXT
) STRICT;
CREATE INDEX effects_unfinished ON effects (number) WHERE outcome IS NULL;

CREATE TABLE devices (
  device       BLOB PRIMARY KEY,
  name         TEXT NOT NULL,
  spki         BLOB NOT NULL,
  scopes       TEXT NOT NULL,
  paired_at_ms INTEGER NOT NULL,
  revoked      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX devices_spki ON devices (spki);

CREATE TABLE settings (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
