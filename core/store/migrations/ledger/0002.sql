-- A long text that streamed becomes a body where it lies: `open_text` is the number of the text whose pieces are the body's.
ALTER TABLE blobs ADD COLUMN open_text INTEGER;
