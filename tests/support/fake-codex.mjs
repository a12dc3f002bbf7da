// An agent that claims to be codex and speaks its protocol (docs/agents-probes.md) well enough to be taken for it, and then
// misbehaves. Tests configure it in host.toml as `protocol = "codex"`.
//
//   node fake-codex.mjs SCENARIO [FILE [CALLS]]
//
// CALLS gets a line for each call: its method, and the Unix times, ms, at which it was read and its answer was written; `began`
// of the first is when the process began.
//
// What a turn does is said by its prompt if that holds [[do:NAME]], else by SCENARIO:
//   ok                answers "fine"
//   exit              begins a turn, streams some text and exits with status 3
//   exit-start        exits instead of answering turn/start
//   flood             writes 20 MiB to stderr, then answers
//   deaf              never answers turn/start; nothing after it
//   broken            writes lines that are no frames between those of a turn that is fine
//   oversized         writes a frame of 17 MiB between those of a turn that is fine
//   unknown           writes notifications, items and a server request that nobody knows, then answers
//   double-end        ends its turn twice, with different statuses, and sends an item of it afterwards
//   asks              asks for a command and answers when it got a decision; each decision goes to FILE
//   withdraws         asks for a command and takes the question back when FILE exists, then ends the turn when FILE.end does
//   edits             writes `unasked.txt` into its workspace and says so, without having asked
//   asks-and-exits    asks for a command and exits when FILE exists
//   asks-many         says a word and asks for a command, as often as the prompt's [[n:COUNT]] says; the Unix time, ms, of each
//                     question and of its answer goes to FILE
//   streams           says one message of [[n:COUNT]] pieces, 1,500 a second, then starts a command, asks for it, and ends; the
//                     Unix times, ms, of its first and last piece go to FILE
//   recites           says one message of the pieces in the JSON file [[pieces:PATH]], evenly in [[n:MS]] ms, and ends; the
//                     Unix times, ms, of its first and last piece go to FILE
// Scenarios of the process as a whole:
//   mute              never answers anything, not even initialize
//   dies-first        exits before it answers initialize
//   garbage           answers initialize with something that is no frame, for ever
import fs from 'node:fs';
import readline from 'node:readline';

const [scenario = 'ok', file, calls] = process.argv.slice(2);
let counter = 0;
const fresh = (kind) => `${kind}-${process.pid}-${(counter += 1)}`;
const raw = (text) => process.stdout.write(text);
const send = (frame) => raw(`${JSON.stringify(frame)}\n`);
const notify = (method, params) => send({ method, params, emittedAtMs: Date.now() });
const waiting = new Map();

/** Unix time, ms, with its fractions. */
const now = () => performance.timeOrigin + performance.now();
const countIn = (prompt) => Number(/\[\[n:(\d+)\]\]/.exec(prompt)?.[1] ?? 1);

/** Asks the client, resolves to its answer. */
function ask(id, method, params) {
  send({ method, id, params });
  return new Promise((resolve) => waiting.set(id, resolve));
}

/** Resolves as soon as a file exists. */
function exists(path) {
  return new Promise((resolve) => {
    const look = () => (fs.existsSync(path) ? resolve() : setTimeout(look, 5));
    look();
  });
}

/** Writes so much that the pipe has to be read for it to end. */
function write(stream, text) {
  return new Promise((resolve) => stream.write(text, resolve));
}

const turnOf = (id, status, more = {}) => ({
  id,
  rootTurnId: id,
  items: [],
  itemsView: 'notLoaded',
  status,
  error: null,
  startedAt: 1,
  completedAt: null,
  durationMs: null,
  ...more,
});

const threadOf = (id, cwd) => ({
  id,
  sessionId: id,
  preview: '',
  ephemeral: false,
  historyMode: 'paginated',
  modelProvider: 'local',
  model: 'gpt-5.5',
  createdAt: 1,
  updatedAt: 1,
  status: { type: 'idle' },
  cwd,
  cliVersion: '0.171.0',
  source: 'vscode',
  turns: [],
});

function item(turn, value, { open = true, close = true } = {}) {
  const place = { threadId: turn.thread, turnId: turn.id };
  if (open) notify('item/started', { item: value, ...place, startedAtMs: Date.now() });
  if (close) notify('item/completed', { item: value, ...place, completedAtMs: Date.now() });
}

function say(turn, text) {
  const id = fresh('msg');
  item(turn, { type: 'agentMessage', id, text: '' }, { close: false });
  notify('item/agentMessage/delta', { threadId: turn.thread, turnId: turn.id, itemId: id, delta: text });
  item(turn, { type: 'agentMessage', id, text }, { open: false });
}

/** Says the pieces of a message at so many a millisecond from `began` on; gives the whole. */
async function stream(turn, id, pieces, began, rate) {
  let said = 0;
  while (said < pieces.length) {
    const due = Math.min(pieces.length, 1 + Math.floor((now() - began) * rate));
    for (; said < due; said += 1) {
      notify('item/agentMessage/delta', { threadId: turn.thread, turnId: turn.id, itemId: id, delta: pieces[said] });
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return pieces.join('');
}

function begin(turn, prompt, clientId) {
  notify('thread/status/changed', { threadId: turn.thread, status: { type: 'active', activeFlags: [] } });
  notify('turn/started', { threadId: turn.thread, turn: turnOf(turn.id, 'inProgress') });
  const content = [{ type: 'text', text: prompt, text_elements: [] }];
  item(turn, { type: 'userMessage', id: fresh('user'), clientId, content });
}

function end(turn, status = 'completed') {
  notify('thread/status/changed', { threadId: turn.thread, status: { type: 'idle' } });
  notify('turn/completed', { threadId: turn.thread, turn: turnOf(turn.id, status, { completedAt: 2, durationMs: 1 }) });
}

function command(turn, status) {
  const line = "/bin/bash -lc 'rm -rf build'";
  return {
    type: 'commandExecution',
    id: turn.commandItem,
    command: line,
    cwd: turn.cwd,
    processId: null,
    source: 'agent',
    status,
    commandActions: [{ type: 'unknown', command: 'rm -rf build' }],
    aggregatedOutput: null,
    exitCode: null,
    durationMs: null,
  };
}

function askForCommand(turn) {
  turn.commandItem = fresh('call');
  turn.request = (counter += 1);
  const value = command(turn, 'inProgress');
  item(turn, value, { close: false });
  return ask(turn.request, 'item/commandExecution/requestApproval', {
    kind: 'command',
    threadId: turn.thread,
    turnId: turn.id,
    itemId: turn.commandItem,
    startedAtMs: Date.now(),
    environmentId: 'local',
    command: value.command,
    cwd: turn.cwd,
    commandActions: value.commandActions,
    availableDecisions: ['accept', 'cancel'],
  });
}

const resolved = (turn) => notify('serverRequest/resolved', { threadId: turn.thread, requestId: turn.request });

const TURNS = {
  async ok(turn) {
    say(turn, 'fine');
    end(turn);
  },
  async exit(turn) {
    const id = fresh('msg');
    item(turn, { type: 'agentMessage', id, text: '' }, { close: false });
    const place = { threadId: turn.thread, turnId: turn.id, itemId: id };
    await write(process.stdout, `${JSON.stringify({ method: 'item/agentMessage/delta', params: { ...place, delta: 'half a sen' } })}\n`);
    await write(process.stderr, 'fake-codex: giving up\n');
    process.exit(3);
  },
  async flood(turn) {
    const line = `${'noise '.repeat(170)}\n`;
    for (let i = 0; i < 20_000; i += 1) await write(process.stderr, line);
    await TURNS.ok(turn);
  },
  async broken(turn) {
    for (const text of ['{', 'no json at all', '[1,2]', '{"method":7}', '{"id":{},"method":"x"}', '\u0000\u0001', '"', '{"id":999,"result":{}}']) {
      raw(`${text}\n`);
    }
    process.stdout.write(Buffer.from([0xff, 0xfe, 0x80, 0x0a]));
    notify('item/completed', { threadId: turn.thread, turnId: turn.id });
    notify('item/agentMessage/delta', { threadId: turn.thread, turnId: turn.id, itemId: 'never opened', delta: 'lost' });
    notify('turn/completed', null);
    await TURNS.ok(turn);
  },
  async oversized(turn) {
    await write(process.stdout, `{"method":"item/started","params":{"text":"${'x'.repeat(17 * 1024 * 1024)}"}}\n`);
    await TURNS.ok(turn);
  },
  async unknown(turn) {
    notify('item/holographic/changed', { threadId: turn.thread, turnId: turn.id, depth: 3 });
    item(turn, { type: 'hologram', id: fresh('item'), depth: 3 });
    const answer = await ask((counter += 1), 'item/hologram/requestApproval', { threadId: turn.thread, turnId: turn.id, itemId: 'h' });
    say(turn, answer.error ? 'fine' : 'somebody answered what nobody knows');
    end(turn);
  },
  async 'double-end'(turn) {
    say(turn, 'fine');
    end(turn);
    end(turn, 'failed');
    say(turn, 'a late word');
    end(turn, 'interrupted');
  },
  async asks(turn) {
    const answer = await askForCommand(turn);
    fs.appendFileSync(file, `${JSON.stringify(answer.result ?? answer.error)}\n`);
    resolved(turn);
    item(turn, command(turn, answer.result?.decision === 'accept' ? 'completed' : 'declined'), { open: false });
    await TURNS.ok(turn);
  },
  async edits(turn) {
    fs.writeFileSync(`${turn.cwd}/unasked.txt`, 'nobody was asked\n');
    const changes = [{ path: `${turn.cwd}/unasked.txt`, kind: { type: 'add' }, diff: 'nobody was asked\n' }];
    const value = { type: 'fileChange', id: fresh('call'), changes };
    item(turn, { ...value, status: 'inProgress' }, { close: false });
    item(turn, { ...value, status: 'completed' }, { open: false });
    await TURNS.ok(turn);
  },
  async withdraws(turn) {
    void askForCommand(turn);
    await exists(file);
    resolved(turn);
    item(turn, command(turn, 'declined'), { open: false });
    await exists(`${file}.end`);
    await TURNS.ok(turn);
  },
  async 'asks-many'(turn, prompt) {
    for (let n = countIn(prompt); n > 0; n -= 1) {
      say(turn, `before question ${n}`);
      const asked = now();
      await askForCommand(turn);
      fs.appendFileSync(file, `${JSON.stringify({ asked, told: now() })}\n`);
      resolved(turn);
      item(turn, command(turn, 'completed'), { open: false });
    }
    end(turn);
  },
  async streams(turn, prompt) {
    const count = countIn(prompt);
    const id = fresh('msg');
    item(turn, { type: 'agentMessage', id, text: '' }, { close: false });
    const began = now();
    const text = await stream(turn, id, Array.from({ length: count }, (_, n) => `w${n} `), began, 1.5);
    fs.appendFileSync(file, `${JSON.stringify({ began, ended: now(), pieces: count, bytes: Buffer.byteLength(text) })}\n`);
    // The message is not closed yet: what comes now must not overtake its text.
    await askForCommand(turn);
    resolved(turn);
    item(turn, command(turn, 'completed'), { open: false });
    item(turn, { type: 'agentMessage', id, text }, { open: false });
    end(turn);
  },
  async recites(turn, prompt) {
    const pieces = JSON.parse(fs.readFileSync(/\[\[pieces:([^\]]+)\]\]/.exec(prompt)[1], 'utf8'));
    const id = fresh('msg');
    item(turn, { type: 'agentMessage', id, text: '' }, { close: false });
    const began = now();
    const text = await stream(turn, id, pieces, began, pieces.length / countIn(prompt));
    fs.appendFileSync(file, `${JSON.stringify({ began, ended: now(), pieces: pieces.length, bytes: Buffer.byteLength(text) })}\n`);
    item(turn, { type: 'agentMessage', id, text }, { open: false });
    end(turn);
  },
  async 'asks-and-exits'(turn) {
    void askForCommand(turn);
    await exists(file);
    process.exit(0);
  },
};

const CALLS = {
  initialize: () => ({ userAgent: 'fake/0.171.0 (test)', codexHome: '/nowhere', platformFamily: 'unix', platformOs: 'linux' }),
  'model/list': () => ({ data: [], nextCursor: null }),
  'account/read': () => ({ account: null, userId: null, requiresOpenaiAuth: false }),
  'thread/start': (params) => opened(fresh('thread'), params),
  'thread/resume': (params) => opened(params.threadId, params),
  'thread/read': (params) => ({ thread: threadOf(params.threadId, '/') }),
  'thread/turns/list': () => ({ data: [], nextCursor: null, backwardsCursor: null }),
  'thread/items/list': () => ({ data: [], nextCursor: null, backwardsCursor: null }),
  'turn/interrupt': (params) => {
    setImmediate(() => end({ thread: params.threadId, id: params.turnId }, 'interrupted'));
    return {};
  },
};

const directories = new Map();

function opened(id, params) {
  directories.set(id, params.cwd);
  setImmediate(() => notify('thread/started', { thread: threadOf(id, params.cwd) }));
  return {
    thread: threadOf(id, params.cwd),
    model: 'gpt-5.5',
    modelProvider: 'local',
    cwd: params.cwd,
    approvalPolicy: params.approvalPolicy,
    approvalsReviewer: 'user',
    sandbox: { type: 'workspaceWrite', writableRoots: [], networkAccess: false },
    reasoningEffort: null,
  };
}

function startTurn(id, params) {
  const prompt = params.input.map((part) => part.text || '').join('\n');
  const wanted = /\[\[do:([\w-]+)\]\]/.exec(prompt)?.[1] || scenario;
  if (wanted === 'deaf') return;
  if (wanted === 'exit-start') process.exit(3);
  const turn = { thread: params.threadId, id: fresh('turn'), cwd: directories.get(params.threadId) };
  send({ id, result: { turn: turnOf(turn.id, 'inProgress') } });
  begin(turn, prompt, params.clientUserMessageId ?? null);
  (TURNS[wanted] || TURNS.ok)(turn, prompt);
}

/** Takes a frame in, and notes a call with its times. */
function noted(frame) {
  const read = now();
  receive(frame);
  if (calls && frame.method && frame.id !== undefined) {
    const line = { method: frame.method, began: performance.timeOrigin, read, answered: now() };
    fs.appendFileSync(calls, `${JSON.stringify(line)}\n`);
  }
}

function receive(frame) {
  const { id, method, params } = frame;
  if (!method) {
    waiting.get(id)?.(frame);
    waiting.delete(id);
  } else if (method === 'turn/start') startTurn(id, params);
  else if (CALLS[method]) send({ id, result: CALLS[method](params) });
  else if (id !== undefined) send({ id, error: { code: -32601, message: `no such method: ${method}` } });
}

if (scenario === 'dies-first') {
  process.stderr.write('fake-codex: cannot start, the moon is full\n', () => process.exit(7));
} else if (scenario === 'mute') {
  process.stdin.resume().on('end', () => process.exit(0));
} else if (scenario === 'garbage') {
  setInterval(() => raw('this is not a frame\n'.repeat(100)), 1);
  process.stdin.resume().on('end', () => process.exit(0));
} else {
  readline
    .createInterface({ input: process.stdin })
    .on('line', (line) => noted(JSON.parse(line)))
    .on('close', () => process.exit(0));
}
