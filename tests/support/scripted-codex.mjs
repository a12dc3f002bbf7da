// An agent that speaks codex' protocol (docs/agents-probes.md) as far as Pilothouse uses it, does what a script says and
// keeps a synced log of all that reached it: see scripted.mjs for the script, the log and the arguments. A turn is in the
// store before `turn/start` is answered, as with codex itself. A message that would start a turn while one runs is logged
// as `busy`.
import readline from 'node:readline';
import { Turn, fresh, nameOf, note, perform, store } from './scripted.mjs';

const send = (frame) => process.stdout.write(`${JSON.stringify(frame)}\n`);
const notify = (method, params) => send({ method, params, emittedAtMs: Date.now() });
const waiting = new Map();
const threads = new Map();
let requests = 0;

function ask(id, method, params) {
  send({ method, id, params });
  return new Promise((resolve) => waiting.set(id, resolve));
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

const place = (turn) => ({ threadId: turn.session, turnId: turn.id });

function open(turn, item) {
  notify('item/started', { item, ...place(turn), startedAtMs: Date.now() });
}

/** Ends an item and keeps it. */
function close(turn, item) {
  store.add(turn.session, { turn: turn.id, item });
  notify('item/completed', { item, ...place(turn), completedAtMs: Date.now() });
}

function heard(turn, words, clientId) {
  const content = [{ type: 'text', text: words, text_elements: [] }];
  const item = { type: 'userMessage', id: fresh('user'), clientId, content };
  store.add(turn.session, { turn: turn.id, item });
  return item;
}

const command = (turn, id, line, status, output = null) => ({
  type: 'commandExecution',
  id,
  command: line,
  cwd: threads.get(turn.session).cwd,
  processId: null,
  source: 'agent',
  status,
  commandActions: [{ type: 'unknown', command: line }],
  aggregatedOutput: output,
  exitCode: status === 'completed' ? 0 : null,
  durationMs: null,
});

const resolved = (turn, id) => notify('serverRequest/resolved', { threadId: turn.session, requestId: id });

/** An answer has come, or the turn was stopped: then codex says so after the turn's end, and takes no answer any more. */
function over(turn, id, answer) {
  if (answer !== 'stopped') return resolved(turn, id);
  waiting.delete(id);
  turn.left = [...(turn.left ?? []), id];
}

const face = {
  openMessage(turn) {
    const id = fresh('msg');
    open(turn, { type: 'agentMessage', id, text: '' });
    return id;
  },
  appendMessage: (turn, id, piece) => notify('item/agentMessage/delta', { ...place(turn), itemId: id, delta: piece }),
  closeMessage: (turn, id, words) => close(turn, { type: 'agentMessage', id, text: words }),
  think(turn, words) {
    const item = { type: 'reasoning', id: fresh('rs'), summary: [words], content: [] };
    open(turn, item);
    close(turn, item);
  },
  plan: (turn, entries) =>
    notify('turn/plan/updated', {
      ...place(turn),
      explanation: null,
      plan: entries.map((step, index) => ({ step, status: index + 1 < entries.length ? 'completed' : 'inProgress' })),
    }),
  async tool(turn, { tool, output = '', ms = 0 }) {
    const id = fresh('call');
    open(turn, command(turn, id, tool, 'inProgress'));
    if (ms) await turn.sleep(ms);
    // Codex leaves a command open when its turn is stopped.
    if (!turn.stopped) close(turn, command(turn, id, tool, 'completed', output));
  },
  async ask(turn, request, noted) {
    const [id, item, line] = [(requests += 1), fresh('call'), `do ${request}`];
    open(turn, command(turn, item, line, 'inProgress'));
    const asked = ask(id, 'item/commandExecution/requestApproval', {
      kind: 'command',
      ...place(turn),
      itemId: item,
      startedAtMs: Date.now(),
      environmentId: 'local',
      command: line,
      cwd: threads.get(turn.session).cwd,
      commandActions: [{ type: 'unknown', command: line }],
      // The rule carries the request's name through the answer.
      availableDecisions: [{ acceptWithExecpolicyAmendment: { execpolicy_amendment: [request] } }, 'decline', 'cancel'],
    }).then((frame) => {
      const decision = frame.result?.decision;
      const rule = decision?.acceptWithExecpolicyAmendment?.execpolicy_amendment;
      const option = rule ? 'allow' : String(decision);
      noted({ option, names: rule?.[0] ?? null });
      return { allowed: Boolean(rule), option, stops: option === 'cancel' };
    });
    const answer = await turn.within(asked);
    over(turn, id, answer);
    if (answer === 'stopped') return null;
    close(turn, command(turn, item, line, answer.allowed ? 'completed' : 'declined', answer.allowed ? `did ${request}` : null));
    return answer;
  },
  async question(turn, request, noted) {
    const id = (requests += 1);
    const choice = (word) => ({ label: `${request}: ${word}`, description: '' });
    const asked = ask(id, 'item/tool/requestUserInput', {
      ...place(turn),
      itemId: fresh('ask'),
      questions: [{ id: request, header: 'Which', question: `which for ${request}?`, isOther: false, isSecret: false, options: [choice('yes'), choice('no')] }],
    }).then((frame) => {
      const [[question, given] = [null, null]] = Object.entries(frame.result?.answers ?? {});
      const [named, option] = String(given?.answers?.[0] ?? '').split(': ');
      noted({ option: option ?? 'none', names: named === question ? question : `${question}/${named}` });
      return { allowed: option === 'yes', option };
    });
    const answer = await turn.within(asked);
    over(turn, id, answer);
    return answer === 'stopped' ? null : answer;
  },
};

async function startTurn(id, params) {
  const words = params.input.map((part) => part.text || '').join('\n');
  const name = nameOf(words);
  const thread = threads.get(params.threadId);
  if (!thread) return send({ id, error: { code: -32600, message: `thread not loaded: ${params.threadId}` } });
  note({ log: 'prompt', name, session: params.threadId, busy: Boolean(thread.turn) });
  if (thread.turn) {
    // As codex does: it is put into the turn that goes on.
    return send({ id, result: { turn: turnOf(thread.turn.id, 'inProgress') } });
  }
  const turn = new Turn(params.threadId, fresh('turn'), name);
  thread.turn = turn;
  const message = heard(turn, words, params.clientUserMessageId ?? null);
  send({ id, result: { turn: turnOf(turn.id, 'inProgress') } });
  note({ log: 'taken', name });
  notify('thread/status/changed', { threadId: turn.session, status: { type: 'active', activeFlags: [] } });
  notify('turn/started', { threadId: turn.session, turn: turnOf(turn.id, 'inProgress') });
  open(turn, message);
  notify('item/completed', { item: message, ...place(turn), completedAtMs: Date.now() });
  const end = await perform(turn, face);
  const status = end.error ? 'failed' : turn.stopped ? 'interrupted' : 'completed';
  const error = end.error ? { message: end.error, codexErrorInfo: null, additionalDetails: null } : null;
  thread.turn = null;
  const last = turnOf(turn.id, status, { error, completedAt: 2, durationMs: 1 });
  store.add(turn.session, { turn: turn.id, end: { status, error } });
  note({ log: 'end', name, reason: status });
  notify('thread/status/changed', { threadId: turn.session, status: { type: 'idle' } });
  notify('turn/completed', { threadId: turn.session, turn: last });
  for (const request of turn.left ?? []) resolved(turn, request);
}

function steerTurn(id, params) {
  const turn = threads.get(params.threadId)?.turn;
  if (!turn || turn.stopped) return send({ id, error: { code: -32600, message: 'no active turn to steer' } });
  if (turn.id !== params.expectedTurnId) {
    return send({ id, error: { code: -32600, message: `expected active turn id \`${params.expectedTurnId}\` but found \`${turn.id}\`` } });
  }
  const words = params.input.map((part) => part.text || '').join('\n');
  note({ log: 'steer', name: nameOf(words), session: params.threadId });
  const message = heard(turn, words, params.clientUserMessageId ?? null);
  send({ id, result: { turnId: turn.id } });
  note({ log: 'taken', name: nameOf(words) });
  open(turn, message);
  notify('item/completed', { item: message, ...place(turn), completedAtMs: Date.now() });
}

function interrupt(id, params) {
  const turn = threads.get(params.threadId)?.turn;
  note({ log: 'cancel', session: params.threadId });
  if (!turn) return send({ id, error: { code: -32600, message: 'no active turn to interrupt' } });
  if (turn.id !== params.turnId) {
    return send({ id, error: { code: -32600, message: `expected active turn id ${params.turnId} but found ${turn.id}` } });
  }
  send({ id, result: {} });
  turn.stop();
}

/** What a process that died left: turns without an end are interrupted, and never completed. */
function turnsOf(id) {
  const turns = new Map();
  for (const { turn, item, end } of store.read(id)) {
    const known = turns.get(turn) ?? { items: [], end: null };
    turns.set(turn, known);
    if (item) known.items.push(item);
    if (end) known.end = end;
  }
  const live = threads.get(id)?.turn?.id;
  return [...turns].map(([turn, { items, end }]) => {
    const status = end?.status ?? (turn === live ? 'inProgress' : 'interrupted');
    return turnOf(turn, status, { items, itemsView: 'full', error: end?.error ?? null, completedAt: end ? 2 : null });
  });
}

function opened(id, params, how) {
  if (!threads.has(id)) threads.set(id, { turn: null });
  threads.get(id).cwd = params.cwd;
  note({ log: 'session', session: id, how });
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

const CALLS = {
  initialize: () => ({ userAgent: 'scripted/0.171.0 (test)', codexHome: '/nowhere', platformFamily: 'unix', platformOs: 'linux' }),
  'model/list': () => ({ data: [], nextCursor: null }),
  'account/read': () => ({ account: null, userId: null, requiresOpenaiAuth: false }),
  'thread/start': (params) => opened(fresh('thread'), params, 'new'),
  'thread/resume': (params) => {
    if (!threads.has(params.threadId) && !store.has(params.threadId)) {
      throw new Error(`no rollout found for thread id ${params.threadId}`);
    }
    return opened(params.threadId, params, 'load');
  },
  'thread/turns/list': (params) => ({
    data: turnsOf(params.threadId).reverse().slice(0, params.limit),
    nextCursor: null,
    backwardsCursor: null,
  }),
};

function receive(frame) {
  const { id, method, params } = frame;
  if (!method) {
    const waiter = waiting.get(id);
    waiting.delete(id);
    if (waiter) waiter(frame);
    else note({ log: 'stray', id });
  } else if (method === 'turn/start') void startTurn(id, params);
  else if (method === 'turn/steer') steerTurn(id, params);
  else if (method === 'turn/interrupt') interrupt(id, params);
  else if (CALLS[method]) {
    try {
      send({ id, result: CALLS[method](params ?? {}) });
    } catch (error) {
      send({ id, error: { code: -32600, message: error.message } });
    }
  } else if (id !== undefined) send({ id, error: { code: -32601, message: `no such method: ${method}` } });
}

readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => receive(JSON.parse(line)))
  .on('close', () => process.exit(0));
