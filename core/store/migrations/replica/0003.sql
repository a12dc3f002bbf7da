-- Threads that wait for the sign-in of their agent, by host and agent: they are few, and asked for at every step of a feed.
CREATE INDEX summaries_signed_out ON summaries (host, json_extract(json, '$.agent'))
  WHERE json_extract(json, '$.held') = 'sign_in';

-- Hosts told an earlier version of the device `failed` in its place. What came so is asked for again.
UPDATE hosts SET feed_epoch = NULL, feed_revision = 0
  WHERE host IN (SELECT host FROM summaries WHERE json_extract(json, '$.held') = 'failed');
UPDATE threads SET version = 0 WHERE json_extract(json, '$.held') = 'failed';
