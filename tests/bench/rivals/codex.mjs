// The rival of `tail` in the agent itself: codex with the same texts in its own store, asked for the newest turns of the
// conversation (thread/turns/list, full items), as a client would that has no log of its own.
//
//   node codex.mjs CODEX MODEL_SERVER AGENTS_SCRIPT DIR TEXTS LIMIT
//
// TEXTS holds a JSON string a line, one a turn. The turns are driven through codex with the scripted model; then the call is
// made 21 times. Prints {turns, bytes, best_ms, median_ms, resume_ms, answer_bytes}.
import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import readline from 'node:readline';
import { bytesOf, often, patience, script, startModel, texts as read, timed } from './agents.mjs';

const [codex, modelServer, agents, dir, textsFile, limit] = process.argv.slice(2);
patience(600);
const texts = read(textsFile);
const model = await startModel(modelServer);
const port = String(model.port);
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
  await script(port, name, [{ text, chunk: 8192 }]);
  await agent.turn(threadId, `turn ${n}: please go on [[script:${name}]]`);
}
agent.child.kill();

// A new process, as a host's would be that looks at a conversation again.
agent = start();
await agent.hello();
const [resumed] = await timed(() => agent.call('thread/resume', { threadId }));
const { best_ms, median_ms, last } = await often(() =>
  agent.call('thread/turns/list', { threadId, limit: Number(limit), itemsView: 'full' }),
);
if (last.data.length !== Number(limit)) throw new Error(`${last.data.length} turns came`);
const answer_bytes = agent.size();
console.log(JSON.stringify({ turns: texts.length, bytes: bytesOf(texts), best_ms, median_ms, resume_ms: resumed, answer_bytes }));
agent.child.kill();
model.stop();
process.exit(0);
