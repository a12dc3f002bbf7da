-- The replica: what a device keeps of its hosts. One file per data directory, possibly several processes.
-- JSON is TEXT, ids are 16-byte BLOBs, hashes 32-byte BLOBs, times Unix ms.

CREATE TABLE hosts (
  host          BLOB PRIMARY KEY,
  name          TEXT NOT NULL,
  addresses     TEXT NOT NULL,
  spki          BLOB NOT NULL,
  device        BLOB NOT NULL,
  scopes        TEXT NOT NULL,
  paired_at_ms  INTEGER NOT NULL,
  revoked       INTEGER NOT NULL DEFAULT 0,
  last_seen_ms  INTEGER,
  feed_epoch    BLOB,
  feed_revision INTEGER NOT NULL DEFAULT 0,
  feed_counts   TEXT,
  policy        TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE summaries (
  host          BLOB NOT NULL,
  thread        BLOB NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  json          TEXT NOT NULL,
  PRIMARY KEY (host, thread)
) STRICT, WITHOUT ROWID;
CREATE INDEX summaries_time ON summaries (updated_at_ms);

-- Open requests of a host, over all its threads. `open`: 1 approval waits, 2 question waits, 3 answer on its way.
CREATE TABLE inbox (
  host    BLOB NOT NULL,
  thread  BLOB NOT NULL,
  request BLOB NOT NULL,
  open    INTEGER NOT NULL,
  json    TEXT NOT NULL,
  PRIMARY KEY (host, request)
) STRICT;
CREATE INDEX inbox_thread ON inbox (thread, host);

-- Threads that were opened: state with its cursor. `version` is that of the state's shape; one of another version is
-- fetched anew.
CREATE TABLE threads (
  number  INTEGER PRIMARY KEY,
  thread  BLOB NOT NULL UNIQUE,
  host    BLOB NOT NULL,
  version INTEGER NOT NULL,
  epoch   BLOB NOT NULL,
  seq     INTEGER NOT NULL,
  chain   BLOB NOT NULL,
  json    TEXT NOT NULL
) STRICT;
CREATE INDEX threads_host ON threads (host);

-- The same shape as the ledger's.
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

-- Commands on their way. `state`: 1 saved, 2 handed (sent at least once), 3 done, 4 expired, 5 parked.
-- `handed` stays 1 for ever once bytes may have left.
CREATE TABLE outbox (
  number     INTEGER PRIMARY KEY AUTOINCREMENT,
  command    BLOB NOT NULL UNIQUE,
  host       BLOB NOT NULL,
  thread     BLOB NOT NULL,
  device_seq INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  state      INTEGER NOT NULL,
  handed     INTEGER NOT NULL DEFAULT 0,
  json       TEXT NOT NULL,
  outcome    TEXT,
  parked     TEXT
) STRICT;
CREATE INDEX outbox_pending ON outbox (host, number) WHERE state IN (1, 2);
CREATE INDEX outbox_thread ON outbox (thread, number);

-- The last number given on a line of commands; outlives pruned outbox rows.
CREATE TABLE device_lines (
  host       BLOB NOT NULL,
  thread     BLOB NOT NULL,
  device_seq INTEGER NOT NULL,
  PRIMARY KEY (host, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
