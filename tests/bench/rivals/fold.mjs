// The rival of `rebuild`: reads the same log with node:sqlite, parses it, and folds it into maps of what is shown.
//
//   node fold.mjs LEDGER.DB     does it once for every line on its input, prints the milliseconds it took
import { DatabaseSync } from 'node:sqlite';
import readline from 'node:readline';

const [file] = process.argv.slice(2);

function once() {
  const db = new DatabaseSync(file, { readOnly: true });
  const state = { runs: new Map(), items: new Map(), messages: new Map(), open: new Set(), other: new Map(), entries: 0 };
  const cpu = process.threadCpuUsage();
  const began = process.hrtime.bigint();
  for (const row of db.prepare('SELECT cause, events FROM entries ORDER BY place').iterate()) {
    state.entries += 1;
    JSON.parse(row.cause);
    for (const event of JSON.parse(row.events)) fold(state, event);
  }
  const wall = Number(process.hrtime.bigint() - began) / 1e6;
  const { user, system } = process.threadCpuUsage(cpu);
  if (state.entries < 100 || state.items.size < 100) throw new Error(`${state.entries} entries, ${state.items.size} items`);
  db.close();
  return JSON.stringify({ wall, cpu: (user + system) / 1000 });
}

function fold(state, event) {
  const kind = event.event ?? event.type;
  if (event.item?.id) {
    state.items.set(event.item.id, event.item);
    state.open.add(event.item.id);
  } else if (typeof event.item === 'string') {
    const item = state.items.get(event.item);
    if (item && event.content) item.content = event.content;
    if (item && event.status) {
      item.status = event.status;
      state.open.delete(event.item);
    }
  } else if (event.run?.id) state.runs.set(event.run.id, event.run);
  else if (event.message?.id) state.messages.set(event.message.id, event.message);
  else state.other.set(kind, event);
}

readline.createInterface({ input: process.stdin }).on('line', () => console.log(once()));
