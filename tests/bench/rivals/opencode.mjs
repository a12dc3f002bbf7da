// The rival of `tail` in OpenCode: the same texts in its own database, asked for the newest messages of the session
// (GET /session/ID/message?limit=N) as a client would that has no log of its own.
//
//   node opencode.mjs OPENCODE MODEL_SERVER DIR TEXTS LIMIT
//
// OpenCode itself says one turn with the scripted model; what it exports of that, under other ids and with the texts, is
// imported as the rest of the session. Prints {turns, bytes, best_ms, median_ms, resume_ms, answer_bytes}.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { bytesOf, often, patience, script, startModel, texts as read, timed } from './agents.mjs';

const [opencode, modelServer, dir, textsFile, limit] = process.argv.slice(2);
patience(600);
const texts = read(textsFile);
const model = await startModel(modelServer);
const home = path.join(dir, 'opencode-home');
const workspace = path.join(dir, 'opencode-workspace');
for (const made of [home, workspace]) fs.mkdirSync(made, { recursive: true });
const config = path.join(home, 'opencode.json');
const limits = { limit: { context: 100_000_000, output: 8192 } };
const provider = {
  local: {
    npm: '@ai-sdk/openai-compatible',
    name: 'Local',
    options: { baseURL: `http://127.0.0.1:${model.port}/v1`, apiKey: 'local' },
    models: { scripted: { name: 'Scripted', ...limits }, 'scripted-small': { name: 'Small', ...limits } },
  },
};
const choices = { model: 'local/scripted', small_model: 'local/scripted-small', enabled_providers: ['local'] };
fs.writeFileSync(config, JSON.stringify({ autoupdate: false, share: 'disabled', snapshot: false, provider, ...choices }));
const env = {
  ...process.env,
  HOME: home,
  XDG_DATA_HOME: path.join(home, 'data'),
  XDG_CONFIG_HOME: path.join(home, 'config'),
  XDG_STATE_HOME: path.join(home, 'state'),
  XDG_CACHE_HOME: path.join(home, 'cache'),
  OPENCODE_CONFIG: config,
  OPENCODE_DISABLE_AUTOUPDATE: '1',
  OPENCODE_DISABLE_MODELS_FETCH: '1',
  OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
};

const freePort = () =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** A server that answers; `get` and `post` give JSON. */
async function start() {
  const port = await freePort();
  const args = ['serve', '--port', String(port), '--hostname', '127.0.0.1'];
  const child = spawn(opencode, args, { stdio: 'ignore', cwd: workspace, env });
  let size = 0;
  const ask = async (route, options = {}) => {
    const answer = await fetch(`http://127.0.0.1:${port}${route}`, options);
    const body = await answer.text();
    if (!answer.ok) throw new Error(`${route}: ${answer.status} ${body}`);
    size = Buffer.byteLength(body);
    return JSON.parse(body);
  };
  const post = (route, body) => ask(route, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  // The first requests after the port opens may never be answered: short waits, again and again.
  for (;;) {
    if (child.exitCode !== null) throw new Error(`opencode serve ended with ${child.exitCode}`);
    try {
      await ask('/session', { signal: AbortSignal.timeout(1000) });
      break;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  const stop = () => {
    child.kill('SIGKILL');
    return new Promise((resolve) => child.once('exit', resolve));
  };
  return { get: ask, post, stop, size: () => size };
}

function run(args, output) {
  const done = spawnSync(opencode, args, { cwd: workspace, env, stdio: ['ignore', output, 'pipe'] });
  if (done.status !== 0) throw new Error(`opencode ${args[0]} ended with ${done.status}: ${done.stderr}`);
}

await script(model.port, 'first', [{ text: 'Ready.' }]);
let server = await start();
const session = await server.post('/session', { title: 'the same texts' });
await server.post(`/session/${session.id}/message`, { parts: [{ type: 'text', text: 'go [[script:first]]' }] });
await server.stop();

// Into a file: what is written into a pipe is cut when it exits.
const exported = path.join(dir, 'exported.json');
run(['export', session.id], fs.openSync(exported, 'w'));
const whole = JSON.parse(fs.readFileSync(exported, 'utf8'));
const templates = whole.messages.slice(-2);
if (templates.map(({ info }) => info.role).join() !== 'user,assistant') throw new Error('the export has no turn');

const split = (id) => /^([a-z]+_)([0-9a-f]{12})(.*)$/.exec(id).slice(1);
const ids = templates.flatMap(({ info, parts }) => [info.id, ...parts.map(({ id }) => id)]);
let newest = ids.map((id) => BigInt(`0x${split(id)[1]}`)).reduce((a, b) => (a > b ? a : b));
/** An id of the same kind, behind all others in order: twelve hexadecimal digits of time and count, then anything. */
const fresh = (id) => {
  const [kind, , rest] = split(id);
  newest += 4096n;
  return kind + newest.toString(16).padStart(12, '0') + rest;
};
let parent;
for (const [turn, text] of texts.entries()) {
  for (const template of templates) {
    const user = template.info.role === 'user';
    const info = structuredClone(template.info);
    info.id = fresh(info.id);
    // Far more than a turn takes: messages are ordered by it.
    for (const moment of Object.keys(info.time)) info.time[moment] += 600_000 * (turn + 1);
    if (user) parent = info.id;
    else info.parentID = parent;
    const parts = template.parts.map((part) => {
      const copy = { ...structuredClone(part), id: fresh(part.id), messageID: info.id };
      if (copy.type === 'text') copy.text = user ? `turn ${turn}: please go on` : text;
      return copy;
    });
    whole.messages.push({ info, parts });
  }
}
const imported = path.join(dir, 'imported.json');
fs.writeFileSync(imported, JSON.stringify(whole));
run(['import', imported], 'ignore');

// A new process, as a host's would be that looks at a conversation again. A turn is two messages.
const page = `/session/${session.id}/message?limit=${2 * Number(limit)}`;
const [resume_ms] = await timed(async () => {
  server = await start();
  await server.get(page);
});
const { best_ms, median_ms, last } = await often(() => server.get(page));
const answer_bytes = server.size();
const wanted = texts.slice(-Number(limit));
const shown = last.filter(({ info }) => info.role === 'assistant').map(({ parts }) => parts.find(({ type }) => type === 'text').text);
if (JSON.stringify(shown) !== JSON.stringify(wanted)) throw new Error(`${shown.length} other answers came than the newest ${limit}`);
console.log(JSON.stringify({ turns: texts.length, bytes: bytesOf(texts), best_ms, median_ms, resume_ms, answer_bytes }));
await server.stop();
model.stop();
process.exit(0);
