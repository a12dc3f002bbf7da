// An ACP agent (protocol 1, JSON-RPC over stdio) that does what a script says and keeps a synced log of all that reached
// it: see scripted.mjs for the script, the log and the arguments. It advertises `loadSession` and replays a conversation
// from its own store, has the modes `default` and `trust`, and takes one prompt at a time per session: a second one is
// refused and logged as `busy`.
import readline from 'node:readline';
import { Turn, fresh, nameOf, note, perform, store } from './scripted.mjs';

const send = (frame) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...frame })}\n`);
const update = (session, value) => send({ method: 'session/update', params: { sessionId: session, update: value } });
const waiting = new Map();
const sessions = new Map();
let requests = 0;

function ask(method, params) {
  const id = (requests += 1);
  send({ id, method, params });
  return new Promise((resolve) => waiting.set(id, resolve));
}

/** Tells the client and keeps it for a later `session/load`. */
function tell(turn, value) {
  update(turn.session, value);
  store.add(turn.session, value);
}

const text = (words) => ({ type: 'text', text: words });

function permission(turn, request, toolCall, answers, noted) {
  const asked = ask('session/request_permission', { sessionId: turn.session, toolCall, options: answers });
  // What arrives is logged whenever it arrives, also after the turn was stopped.
  return asked.then((frame) => {
    const outcome = frame.result?.outcome;
    if (outcome?.outcome !== 'selected') return null;
    const [option, names] = String(outcome.optionId).split(':');
    noted({ option, names });
    return { allowed: option === 'allow' || option === 'yes', option };
  });
}

const face = {
  openMessage: () => fresh('msg'),
  appendMessage: (turn, message, piece) =>
    update(turn.session, { sessionUpdate: 'agent_message_chunk', messageId: message, content: text(piece) }),
  closeMessage: (turn, message, words) =>
    store.add(turn.session, { sessionUpdate: 'agent_message_chunk', messageId: message, content: text(words) }),
  think: (turn, words) => tell(turn, { sessionUpdate: 'agent_thought_chunk', content: text(words) }),
  plan: (turn, entries) =>
    tell(turn, {
      sessionUpdate: 'plan',
      entries: entries.map((content, index) => ({
        content,
        priority: 'medium',
        status: index + 1 < entries.length ? 'completed' : 'in_progress',
      })),
    }),
  async tool(turn, { tool, output = '', ms = 0 }) {
    const toolCallId = fresh('tool');
    tell(turn, { sessionUpdate: 'tool_call', toolCallId, title: tool, kind: 'execute', status: 'in_progress', rawInput: { command: tool } });
    if (ms) await turn.sleep(ms);
    tell(turn, {
      sessionUpdate: 'tool_call_update',
      toolCallId,
      status: turn.stopped ? 'failed' : 'completed',
      content: [{ type: 'content', content: text(output) }],
    });
  },
  async ask(turn, request, noted) {
    const toolCallId = fresh('tool');
    const call = { toolCallId, title: `do ${request}`, kind: 'execute', rawInput: { command: `do ${request}` } };
    tell(turn, { sessionUpdate: 'tool_call', status: 'pending', ...call });
    const answer = await turn.within(
      permission(turn, request, { ...call, status: 'pending' }, [
        { optionId: `allow:${request}`, name: 'Allow', kind: 'allow_once' },
        { optionId: `deny:${request}`, name: 'Deny', kind: 'reject_once' },
      ], noted),
    );
    const allowed = answer?.allowed === true;
    tell(turn, {
      sessionUpdate: 'tool_call_update',
      toolCallId,
      status: allowed ? 'completed' : 'failed',
      content: [{ type: 'content', content: text(allowed ? `did ${request}` : `did not do ${request}`) }],
    });
    return answer === 'stopped' ? null : answer;
  },
  async question(turn, request, noted) {
    const call = { toolCallId: fresh('tool'), title: `which for ${request}?`, kind: 'other' };
    const answer = await turn.within(
      permission(turn, request, call, [
        { optionId: `yes:${request}`, name: `${request}: yes`, kind: 'allow_once' },
        { optionId: `no:${request}`, name: `${request}: no`, kind: 'reject_once' },
      ], noted),
    );
    return answer === 'stopped' ? null : answer;
  },
  raw: (turn, value) => update(turn.session, value),
};

async function prompt(id, params) {
  const words = (params.prompt ?? []).map((part) => part.text ?? '').join('\n');
  const name = nameOf(words);
  const session = sessions.get(params.sessionId);
  if (!session) return send({ id, error: { code: -32002, message: `no session ${params.sessionId}` } });
  note({ log: 'prompt', name, session: params.sessionId, busy: Boolean(session.turn) });
  if (session.turn) return send({ id, error: { code: -32603, message: 'a prompt is being worked on' } });
  const turn = new Turn(params.sessionId, fresh('turn'), name);
  session.turn = turn;
  store.add(params.sessionId, { sessionUpdate: 'user_message_chunk', content: text(words) });
  note({ log: 'taken', name });
  const end = await perform(turn, face);
  session.turn = null;
  note({ log: 'end', name, reason: end.reason ?? 'error' });
  if (end.error) send({ id, error: { code: -32603, message: end.error } });
  else send({ id, result: { stopReason: end.reason } });
}

const modes = (current) => ({
  currentModeId: current,
  availableModes: [
    { id: 'default', name: 'Default' },
    { id: 'trust', name: 'Trust' },
  ],
});

function opened(id, how) {
  sessions.set(id, { turn: null });
  note({ log: 'session', session: id, how });
}

const CALLS = {
  initialize: () => ({
    protocolVersion: 1,
    agentInfo: { name: 'scripted-acp', version: '1.0.0' },
    agentCapabilities: { loadSession: true, promptCapabilities: {} },
    authMethods: [],
  }),
  'session/new': () => {
    const id = fresh('session');
    opened(id, 'new');
    return { sessionId: id, modes: modes('default') };
  },
  'session/load': ({ sessionId }) => {
    if (!store.has(sessionId)) throw new Error(`no session ${sessionId}`);
    for (const value of store.read(sessionId)) update(sessionId, value);
    opened(sessionId, 'load');
    return { modes: modes('default') };
  },
  'session/set_mode': () => ({}),
  authenticate: () => ({}),
};

function receive(frame) {
  const { id, method, params } = frame;
  if (!method) {
    const waiter = waiting.get(id);
    waiting.delete(id);
    if (waiter) waiter(frame);
    else note({ log: 'stray', id });
  } else if (method === 'session/prompt') void prompt(id, params);
  else if (method === 'session/cancel') {
    note({ log: 'cancel', session: params.sessionId });
    sessions.get(params.sessionId)?.turn?.stop();
  } else if (CALLS[method]) {
    try {
      send({ id, result: CALLS[method](params ?? {}) });
    } catch (error) {
      send({ id, error: { code: -32002, message: error.message } });
    }
  } else if (id !== undefined) send({ id, error: { code: -32601, message: `no such method: ${method}` } });
}

readline
  .createInterface({ input: process.stdin })
  .on('line', (line) => receive(JSON.parse(line)))
  .on('close', () => process.exit(0));
