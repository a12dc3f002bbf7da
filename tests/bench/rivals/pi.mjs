// The rival of `tail` in Pi: the same texts in a session file of its own, asked for its messages (`get_messages`; it has no
// pages) as a client would that has no log of its own.
//
//   node pi.mjs PI MODEL_SERVER DIR TEXTS
//
// Runs under the Node that Pi needs. Pi itself says one turn with the scripted model; its entries, under other ids and with the
// texts, are the rest of the session. Prints {turns, bytes, best_ms, median_ms, resume_ms, answer_bytes}.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { bytesOf, often, patience, script, startModel, texts as read, timed } from './agents.mjs';

const [pi, modelServer, dir, textsFile] = process.argv.slice(2);
patience(300);
const texts = read(textsFile);
const model = await startModel(modelServer);
const home = path.join(dir, 'pi-home');
fs.mkdirSync(home, { recursive: true });
const models = [{ id: 'scripted', contextWindow: 100_000_000, maxTokens: 8192 }];
const local = { baseUrl: `http://127.0.0.1:${model.port}/v1`, api: 'openai-completions', apiKey: 'local', models };
fs.writeFileSync(path.join(home, 'models.json'), JSON.stringify({ providers: { local } }));

/** A Pi process: calls, and events that are waited for. */
function start(more) {
  const args = [pi, '--mode', 'rpc', '--provider', 'local', '--model', 'scripted', ...more];
  const env = { ...process.env, HOME: home, PI_CODING_AGENT_DIR: home, PI_OFFLINE: '1', PI_TELEMETRY: '0' };
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'], cwd: dir, env });
  const waiting = new Map();
  const events = new Map();
  let next = 0;
  let size = 0;
  let parts = [];
  // Lines end at LF alone: what else some readers take for the end of a line may stand in a text.
  child.stdout.on('data', (chunk) => {
    parts.push(chunk);
    if (!chunk.includes(10)) return;
    const lines = Buffer.concat(parts).toString('utf8').split('\n');
    parts = [Buffer.from(lines.pop())];
    for (const line of lines) {
      const frame = JSON.parse(line);
      if (frame.type === 'response') {
        size = Buffer.byteLength(line);
        waiting.get(frame.id)?.(frame);
        waiting.delete(frame.id);
      } else events.get(frame.type)?.(frame);
    }
  });
  const call = (type, params = {}) =>
    new Promise((resolve, reject) => {
      const id = `r${(next += 1)}`;
      waiting.set(id, (frame) => (frame.success ? resolve(frame.data) : reject(new Error(`${type}: ${frame.error}`))));
      child.stdin.write(`${JSON.stringify({ id, type, ...params })}\n`);
    });
  const event = (type) => new Promise((resolve) => events.set(type, resolve));
  return { child, call, event, size: () => size };
}

let agent = start([]);
const { sessionFile } = await agent.call('get_state');
await script(model.port, 'first', [{ text: 'Ready.' }]);
const settled = agent.event('agent_settled');
await agent.call('prompt', { message: 'go [[script:first]]' });
await settled;
agent.child.kill();

const entries = fs.readFileSync(sessionFile, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
const of = (role) => entries.findLast((entry) => entry.type === 'message' && entry.message.role === role);
const templates = [of('user'), of('assistant')];
if (templates.includes(undefined)) throw new Error(`${sessionFile} has no turn`);
let parent = entries.at(-1).id;
let number = 0;
const lines = texts.flatMap((text, turn) =>
  templates.map((template) => {
    const said = template.message.role === 'user' ? `turn ${turn}: please go on` : text;
    const id = (0x10000000 + (number += 1)).toString(16);
    const content = [{ type: 'text', text: said }];
    const entry = { ...template, id, parentId: parent, message: { ...template.message, content } };
    parent = id;
    return JSON.stringify(entry);
  }),
);
fs.appendFileSync(sessionFile, `${lines.join('\n')}\n`);

// A new process, as a host's would be that looks at a conversation again.
const [resume_ms] = await timed(async () => {
  agent = start(['--session', sessionFile]);
  await agent.call('get_state');
});
const { best_ms, median_ms, last } = await often(() => agent.call('get_messages'));
const answer_bytes = agent.size();
const shown = last.messages.filter((message) => message.role === 'assistant').length;
if (shown !== texts.length + 1) throw new Error(`${shown} answers came of ${texts.length + 1}`);
console.log(JSON.stringify({ turns: texts.length, bytes: bytesOf(texts), best_ms, median_ms, resume_ms, answer_bytes }));
agent.child.kill();
model.stop();
process.exit(0);
