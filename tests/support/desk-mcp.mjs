// A small MCP server on stdio: `echo` answers, `ask` asks its person by a form, `link` by a link, `whoami` says what it was
// called with and how long its token is. With `ends` it ends at once, with `hangs` it never says anything. Once it has told of
// its tools it makes the file DESK_SEEN, if one is named.
import fs from 'node:fs';
import readline from 'node:readline';

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const tool = (name, properties = {}) => ({ name, description: name, inputSchema: { type: 'object', properties } });
const TOOLS = [tool('echo', { text: { type: 'string' } }), tool('ask'), tool('link'), tool('whoami', { text: { type: 'string' } })];
const FORM = {
  mode: 'form',
  message: 'Who are you?',
  requestedSchema: {
    type: 'object',
    properties: {
      name: { type: 'string', title: 'Name' },
      age: { type: 'integer' },
      colour: { type: 'string', enum: ['red', 'blue'] },
    },
    required: ['name'],
  },
};
const LINK = { mode: 'url', message: 'Sign in', url: 'https://example.com/in', elicitationId: 'one' };

const waiting = new Map();
let asked = 0;

function ask(params) {
  const id = `e${++asked}`;
  const answer = new Promise((resolve) => waiting.set(id, resolve));
  send({ id, method: 'elicitation/create', params });
  return answer;
}

async function call({ name, arguments: given }) {
  if (name === 'whoami') return `called with ${given.text}, by a token of ${process.env.DESK_TOKEN?.length} characters`;
  if (name === 'echo') return `echo: ${given.text}`;
  return `got ${JSON.stringify(await ask(name === 'ask' ? FORM : LINK))}`;
}

async function take(message) {
  const { id, method, params } = message;
  if (method === undefined) return waiting.get(id)?.(message.result ?? message.error);
  if (id === undefined) return undefined;
  if (method === 'initialize') {
    const serverInfo = { name: 'desk', version: '1' };
    return send({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo } });
  }
  if (method === 'tools/list') {
    send({ id, result: { tools: TOOLS } });
    if (process.env.DESK_SEEN) fs.writeFileSync(process.env.DESK_SEEN, 'seen');
    return undefined;
  }
  if (method === 'tools/call') return send({ id, result: { content: [{ type: 'text', text: await call(params) }] } });
  return send({ id, result: {} });
}

const mode = process.argv[2];
if (mode === 'ends') {
  console.error('no way to start');
  process.exit(3);
}
readline.createInterface({ input: process.stdin }).on('line', (line) => mode !== 'hangs' && take(JSON.parse(line)));
