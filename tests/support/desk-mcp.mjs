// A small MCP server on stdio: `echo` answers, `ask` asks its person by a form, `link` by a link, `whoami` says what it was
// called with and how long its token is. With `ends` it ends at once, with `hangs` it never says anything. Once it has told of
// its tools it makes the file DESK_SEEN, if one is named. With `serves` it does all but asking over HTTP: its token is then the
// header `Authorization`, and its address is its first line.
import fs from 'node:fs';
import http from 'node:http';
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

async function call({ name, arguments: given }, token) {
  if (name === 'whoami') return `called with ${given.text}, by a token of ${token?.length} characters`;
  if (name === 'echo') return `echo: ${given.text}`;
  return `got ${JSON.stringify(await ask(name === 'ask' ? FORM : LINK))}`;
}

async function result({ method, params }, token) {
  if (method === 'initialize') {
    const serverInfo = { name: 'desk', version: '1' };
    return { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo };
  }
  if (method === 'tools/list') return { tools: TOOLS };
  if (method === 'tools/call') return { content: [{ type: 'text', text: await call(params, token) }] };
  return {};
}

async function take(message) {
  const { id, method } = message;
  if (method === undefined) return waiting.get(id)?.(message.result ?? message.error);
  if (id === undefined) return undefined;
  send({ id, result: await result(message, process.env.DESK_TOKEN) });
  if (method === 'tools/list' && process.env.DESK_SEEN) fs.writeFileSync(process.env.DESK_SEEN, 'seen');
  return undefined;
}

async function serve(request, response) {
  if (request.method !== 'POST') return response.writeHead(405).end();
  let text = '';
  for await (const part of request.setEncoding('utf8')) text += part;
  const message = JSON.parse(text);
  if (message.id === undefined) return response.writeHead(202).end();
  const answer = { jsonrpc: '2.0', id: message.id, result: await result(message, request.headers.authorization) };
  return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
}

const mode = process.argv[2];
if (mode === 'ends') {
  console.error('no way to start');
  process.exit(3);
}
if (mode === 'serves') {
  const server = http.createServer(serve).listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
}
readline.createInterface({ input: process.stdin }).on('line', (line) => mode !== 'hangs' && take(JSON.parse(line)));
