// The rival of `tail` in the agent itself: codex with the same texts in its own store, asked for the newest turns of the
// conversation (thread/turns/list, full items), as a client would that has no log of its own.
//
//   node codex.mjs CODEX MODEL_SERVER AGENTS_SCRIPT DIR TEXTS LIMIT
//
// TEXTS holds a JSON string a line, one a turn. The turns are driven through codex with the scripted model; then the call is
// made 21 times. Prints {turns, bytes, best_ms, median_ms, resume_ms, answer_bytes}.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';

const [codex, modelServer, agents, dir, textsFile, limit] = process.argv.slice(2);
const texts = fs.readFileSync(textsFile, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
const model = spawn(process.execPath, [modelServer, '0', '--exit-with-stdin'], { stdio: ['pipe', 'pipe', 'inherit'] });
const port = await new Promise((resolve) => {
  readline.createInterface({ input: model.stdout }).on('line', (line) => {
    const found = /model on (\d+)/.exec(line);
    if (found) resolve(found[1]);
  });
});
const home = path.join(dir, 'codex-home');
if (spawnSync(agents, ['home', home, port]).status !== 0) throw new Error('scripts/agents home failed');

/** A codex process: calls, and turns that are waited for. */
function start() {
  const child = spawn(codex, ['app-server'], { stdio: ['pipe', 'pipe', 'ignore'], cwd: dir, env: { ...process.env, CODEX_HOME: home, LOCAL_KEY: 'local', HOME: dir } });
  const waiting = new Map();
  let next = 1;
  let ended = () => {};
  let size = 0;
  readline.createInterface({ input: child.stdout }).on('line', (line) => {
    const frame = JSON.parse(line);
    if (frame.id !== undefined && !frame.method) {
      size = line.length;
      waiting.get(frame.id)?.(frame);
      waiting.delete(frame.id);
    } else if (frame.method === 'turn/completed') ended(frame.params.turn.status);
  });
  const call = (method, params) =>
    new Promise((resolve, reject) => {
      const id = (next += 1);
      waiting.set(id, (frame) => (frame.error ? reject(new Error(`${method}: ${JSON.stringify(frame.error)}`)) : resolve(frame.result)));
      child.stdin.write(`${JSON.stringify({ id, method, params })}\n`);
    });
  const turn = async (threadId, text) => {
    const end = new Promise((resolve) => (ended = resolve));
    await call('turn/start', { threadId, input: [{ type: 'text', text, text_elements: [] }] });
    const status = await end;
    if (status !== 'completed') throw new Error(`a turn ended as ${status}`);
  };
  const hello = async () => {
    await call('initialize', { clientInfo: { name: 'bench', title: 'bench', version: '1' } });
    child.stdin.write('{"method":"initialized"}\n');
  };
  return { child, call, turn, hello, size: () => size };
}

let agent = start();
await agent.hello();
const opened = await agent.call('thread/start', { cwd: dir, approvalPolicy: 'never', sandbox: 'read-only' });
const threadId = opened.thread.id;
for (const [n, text] of texts.entries()) {
  const name = `turn${n}`;
  const put = await fetch(`http://127.0.0.1:${port}/_script/${name}`, { method: 'PUT', body: JSON.stringify([{ text, chunk: 8192 }]) });
  if (!put.ok) throw new Error(`the model took no script: ${put.status}`);
  await agent.turn(threadId, `turn ${n}: please go on [[script:${name}]]`);
}
agent.child.kill();

// A new process, as a host's would be that looks at a conversation again.
agent = start();
await agent.hello();
const timed = async (work) => {
  const began = performance.now();
  const value = await work();
  return [performance.now() - began, value];
};
const [resumed] = await timed(() => agent.call('thread/resume', { threadId }));
const times = [];
let page;
for (let n = 0; n < 21; n += 1) {
  const [took, value] = await timed(() => agent.call('thread/turns/list', { threadId, limit: Number(limit), itemsView: 'full' }));
  times.push(took);
  page = value;
}
if (page.data.length !== Number(limit)) throw new Error(`${page.data.length} turns came`);
const answer_bytes = agent.size();
times.sort((a, b) => a - b);
const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
console.log(JSON.stringify({ turns: texts.length, bytes, best_ms: times[0], median_ms: times[10], resume_ms: resumed, answer_bytes }));
agent.child.kill();
model.kill();
process.exit(0);
