-- The list of threads as a window: where each thread stands, indices in the list's order, and how many stand where.
-- `standing`: 1 waits for a person, 2 works, 3 archived, 4 its last run failed, 5 rests; the first that fits.
ALTER TABLE summaries ADD COLUMN standing INTEGER NOT NULL DEFAULT 5;
UPDATE summaries SET standing = CASE
  WHEN json_extract(json, '$.waiting.approvals') + json_extract(json, '$.waiting.questions') > 0 THEN 1
  WHEN json_extract(json, '$.active') IS NOT NULL THEN 2
  WHEN json_extract(json, '$.queued') > 0 AND json_extract(json, '$.held') IS NULL THEN 2
  WHEN json_extract(json, '$.archived') THEN 3
  WHEN json_extract(json, '$.last_run.status') = 'failed' THEN 4
  ELSE 5 END;
DROP INDEX summaries_time;
CREATE INDEX summaries_order ON summaries (updated_at_ms, thread, host) WHERE standing <> 3;
CREATE INDEX summaries_standing ON summaries (standing, updated_at_ms, thread, host);
CREATE INDEX summaries_host ON summaries (host, updated_at_ms, thread) WHERE standing <> 3;

-- Kept by triggers, so that no list has to be counted.
CREATE TABLE thread_counts (
  host     BLOB NOT NULL,
  standing INTEGER NOT NULL,
  threads  INTEGER NOT NULL,
  PRIMARY KEY (host, standing)
) STRICT, WITHOUT ROWID;
INSERT INTO thread_counts SELECT host, standing, count(*) FROM summaries GROUP BY host, standing;
CREATE TRIGGER summaries_added AFTER INSERT ON summaries BEGIN
  INSERT INTO thread_counts VALUES (NEW.host, NEW.standing, 1)
    ON CONFLICT (host, standing) DO UPDATE SET threads = threads + 1;
END;
CREATE TRIGGER summaries_moved AFTER UPDATE OF standing ON summaries WHEN NEW.standing <> OLD.standing BEGIN
  UPDATE thread_counts SET threads = threads - 1 WHERE host = OLD.host AND standing = OLD.standing;
  INSERT INTO thread_counts VALUES (NEW.host, NEW.standing, 1)
    ON CONFLICT (host, standing) DO UPDATE SET threads = threads + 1;
END;
CREATE TRIGGER summaries_removed AFTER DELETE ON summaries BEGIN
  UPDATE thread_counts SET threads = threads - 1 WHERE host = OLD.host AND standing = OLD.standing;
END;

-- The inbox in its order: what waits longest first.
ALTER TABLE inbox ADD COLUMN opened_at_ms INTEGER NOT NULL DEFAULT 0;
UPDATE inbox SET opened_at_ms = json_extract(json, '$.opened_at_ms');
CREATE INDEX inbox_order ON inbox (opened_at_ms, request, host);

-- Nothing reads it: what waits is counted by what is held.
ALTER TABLE hosts DROP COLUMN feed_counts;
