// The rival of `append`: node:sqlite doing the same work as our ledger for the same entries. JSON from values, a hash an
// event and the chain over them, rows with the same indices (the ledger's own schema), long bodies by hash in pieces,
// 64 entries a transaction.
//
//   node append.mjs OPERATIONS DIR     does it all once for every line on its input, prints the milliseconds it took
import { DatabaseSync } from 'node:sqlite';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';

const [operations, scratch] = process.argv.slice(2);
const schema = fs.readFileSync(new URL('../../../core/store/migrations/ledger/0001.sql', import.meta.url), 'utf8');
const PIECE = 64 * 1024;
const work = fs
  .readFileSync(operations, 'utf8')
  .split('\n')
  .filter(Boolean)
  .map((line) => JSON.parse(line));
for (const entry of work) for (const row of entry.rows) row.id = Uint8Array.from(row.id);
const thread = new Uint8Array(16).fill(9);
const epoch = new Uint8Array(16).fill(1);
const hash = (data) => crypto.hash('sha256', data, 'buffer');
const nul = (value) => value ?? null;

function once() {
  const dir = fs.mkdtempSync(path.join(scratch, 'node-'));
  const db = new DatabaseSync(path.join(dir, 'ledger.db'));
  db.exec('PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 3072; PRAGMA journal_size_limit = 16777216');
  db.exec(schema);
  const begin = db.prepare('BEGIN IMMEDIATE');
  const commit = db.prepare('COMMIT');
  db.prepare('INSERT INTO threads (thread, chain) VALUES (?, ?)').run(thread, new Uint8Array(32));
  const entry = db.prepare('INSERT INTO entries (place, epoch, log_format, host_time_ms, chain, hashes, cause, events) VALUES (?, ?, ?, ?, ?, ?, ?, ?)');
  const head = db.prepare('UPDATE threads SET seq = ?, chain = ? WHERE number = 1');
  const put = db.prepare(
    'INSERT INTO rows (thread, kind, id, run, arrival, open, json) VALUES (1, ?, ?, ?, ?, NULL, ?) ON CONFLICT (thread, kind, id) DO UPDATE SET run = excluded.run, arrival = excluded.arrival, open = excluded.open, json = excluded.json',
  );
  const revision = db.prepare('SELECT max(revision) AS at FROM summaries');
  const summary = db.prepare('INSERT OR REPLACE INTO summaries (thread, revision, json) VALUES (?, ?, ?)');
  const state = db.prepare('INSERT OR REPLACE INTO states (thread, epoch, seq, chain, json, version) VALUES (1, ?, ?, ?, ?, 1)');
  const blob = db.prepare('INSERT OR IGNORE INTO blobs (hash, bytes) VALUES (?, ?)');
  const piece = db.prepare('INSERT INTO blob_chunks (blob, starts_at, bytes) VALUES (?, ?, ?)');
  let chain = Buffer.alloc(32);
  const cpu = process.threadCpuUsage();
  const began = process.hrtime.bigint();
  for (let from = 0; from < work.length; from += 64) {
    begin.run();
    for (let at = from; at < Math.min(from + 64, work.length); at += 1) {
      const value = work[at];
      for (const text of value.blobs) {
        const bytes = Buffer.from(text);
        const { changes, lastInsertRowid } = blob.run(hash(bytes), bytes.length);
        for (let cut = 0; changes && cut < bytes.length; cut += PIECE) piece.run(lastInsertRowid, cut, bytes.subarray(cut, cut + PIECE));
      }
      const texts = value.events.map((event) => JSON.stringify(event));
      const hashes = Buffer.concat(texts.map(hash));
      const cause = JSON.stringify(value.cause);
      chain = hash(Buffer.concat([chain, epoch, Buffer.from(`${at + 1} ${value.time} ${cause}`), hashes]));
      entry.run((1n << 40n) | BigInt(at + 1), epoch, 1, value.time, chain, hashes, cause, `[${texts.join(',')}]`);
      head.run(at + 1, chain);
      for (const row of value.rows) put.run(row.kind, row.id, nul(row.run), nul(row.arrival), JSON.stringify(row.value));
      summary.run(thread, nul(revision.get().at) + 1, JSON.stringify(value.summary));
      if (value.state) state.run(epoch, at + 1, chain, JSON.stringify(value.state));
    }
    commit.run();
  }
  const wall = Number(process.hrtime.bigint() - began) / 1e6;
  const { user, system } = process.threadCpuUsage(cpu);
  const { n } = db.prepare('SELECT count(*) AS n FROM entries').get();
  if (n !== work.length) throw new Error(`${n} of ${work.length} entries were appended`);
  db.close();
  fs.rmSync(dir, { recursive: true });
  return JSON.stringify({ wall, cpu: (user + system) / 1000 });
}

readline.createInterface({ input: process.stdin }).on('line', () => console.log(once()));
