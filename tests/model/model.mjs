// A scripted model server on 127.0.0.1, so that real agents run whole turns without a network.
//
//   node model.mjs [PORT] [LOG_FILE] [--scripts FILE] [--exit-with-stdin]
//
// PORT 0 (the default) takes a free one; "model on PORT" is printed when it listens. FILE holds {"NAME": [step, …]}.
// --exit-with-stdin ends the server when its stdin closes, so that it never outlives the test that started it.
//
//   PUT  /_script/NAME    register a script: a JSON list of steps
//   PUT  /_release/NAME   let every step that holds NAME go on (also those that come later)
//   GET  /_log            {"total", "scripts": {NAME: {requests, steps}}, "marks": {MARK: {…}}}
//   GET  /_wait/NAME?count=N&ms=M   answers {"reached": true} once NAME was asked for N times, false after M ms
//   GET  /_health
//
// A prompt that holds [[script:NAME]] picks its script; [[id:MARK]] names a prompt in the counts (script.mjs). A request without
// tools, as one for a title or a summary, gets the first step of the script "(no-tools)" if there is one. A step:
//   text, think       what is streamed
//   tools             [{name, args} | {custom: true, name, input}], each with an optional namespace
//   chunk, delay      characters per delta (12), milliseconds between deltas (0)
//   pre               milliseconds before the first byte
//   hold, hold_after_text   a name: wait for its release before the first byte, or after the last delta of the text
//   hold_every        {events: N, name}: wait for the release of name-1, name-2, … after each N events
//   error             {status, type?, code?, body?, headers?, times?}: answer with an HTTP error, the first `times` times
//   die               true: cut the socket after the text
//   usage             {input, output} tokens; stop: a stop reason (Anthropic)
import fs from 'node:fs';
import http from 'node:http';
import zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';
import { RequestLog } from './log.mjs';
import { choose, effortOf, picturesOf } from './script.mjs';
import { randomId, StreamEnded } from './protocols/common.mjs';
import * as anthropic from './protocols/anthropic.mjs';
import * as chat from './protocols/chat.mjs';
import * as gemini from './protocols/gemini.mjs';
import * as responses from './protocols/responses.mjs';

const PROTOCOLS = { responses, chat, anthropic, gemini };
const ERROR_TYPES = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Named gates at which a step waits until a test opens them. */
class Gates {
  #open = new Set();
  #waiting = new Map();

  release(name) {
    this.#open.add(name);
    for (const go of this.#waiting.get(name) || []) go();
    this.#waiting.delete(name);
  }

  pass(name) {
    if (!name || this.#open.has(name)) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.set(name, [...(this.#waiting.get(name) || []), resolve]));
  }
}

function protocolOf(url) {
  if (/\/responses(\?|$)/.test(url)) return 'responses';
  if (/\/chat\/completions/.test(url)) return 'chat';
  if (/\/messages(\?|$)/.test(url)) return 'anthropic';
  if (/:(streamG|g)enerateContent/.test(url)) return 'gemini';
  return null;
}

async function readBody(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const raw = Buffer.concat(parts);
  const encoding = request.headers['content-encoding'];
  if (encoding === 'gzip') return zlib.gunzipSync(raw);
  if (encoding === 'br') return zlib.brotliDecompressSync(raw);
  if (encoding === 'zstd' && zlib.zstdDecompressSync) return zlib.zstdDecompressSync(raw);
  return raw;
}

function sendJson(response, status, body, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

function errorBody(error) {
  if (error.body) return error.body;
  const type = error.type || ERROR_TYPES[error.status] || 'server_error';
  return { type: 'error', error: { message: 'scripted error', type, code: error.code || null } };
}

async function streamAnswer(kind, chosen, model, response, gates) {
  const { answer, step } = chosen;
  const nonce = randomId();
  let closed = false;
  response.on('close', () => (closed = true));
  if (answer.pre) await pause(answer.pre);
  await gates.pass(answer.hold);
  response.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache',
    'x-request-id': `req_${nonce}`,
    'request-id': `req_${nonce}`,
  });
  let events = 0;
  const write = async (text) => {
    const held = answer.hold_every;
    if (held && events > 0 && events % held.events === 0) await gates.pass(`${held.name}-${events / held.events}`);
    events += 1;
    if (closed) throw new StreamEnded('the agent closed the connection');
    response.write(text);
    if (answer.delay) await pause(answer.delay);
  };
  const afterText = async () => {
    await gates.pass(answer.hold_after_text);
    if (!answer.die) return;
    response.destroy();
    throw new StreamEnded('cut by the script');
  };
  const usage = { input: answer.usage?.input ?? 100, output: answer.usage?.output ?? 20 };
  await PROTOCOLS[kind].stream({ answer, step, nonce, model, usage, size: answer.chunk || 12, write, afterText });
  response.end();
}

/** Makes the HTTP server; it listens nowhere yet. */
export function createModel({ logFile, scripts = {} } = {}) {
  const known = new Map(Object.entries(scripts));
  const log = new RequestLog(logFile);
  const gates = new Gates();
  const failures = new Map();
  let requests = 0;

  async function control(request, response, url, body) {
    const [, verb, name] = /^\/_(\w+)(?:\/([^?]*))?/.exec(url) || [];
    const key = decodeURIComponent(name || '');
    if (verb === 'script') known.set(key, JSON.parse(body));
    else if (verb === 'release') gates.release(key);
    else if (verb === 'log') return sendJson(response, 200, log.counts());
    else if (verb === 'wait') {
      const query = new URL(url, 'http://model').searchParams;
      const reached = await log.reached(key, Number(query.get('count') || 1), Number(query.get('ms') || 30_000));
      return sendJson(response, 200, { reached });
    } else if (verb !== 'health') return sendJson(response, 404, { error: `no such control route: ${url}` });
    return sendJson(response, 200, { ok: true, requests });
  }

  async function answerModel(kind, request, response, url, body) {
    const parsed = JSON.parse(body || '{}');
    const chosen = choose(kind, parsed, known);
    const model = parsed.model || /models\/([^:]+):/.exec(url)?.[1] || 'scripted';
    const n = requests;
    const effort = effortOf(parsed);
    const { authorization, 'user-agent': agent } = request.headers;
    log.record(n, kind, model, chosen, { agent, authorization, effort, pictures: picturesOf(parsed) });
    const { error } = chosen.answer;
    if (error) {
      const place = `${chosen.name}/${chosen.step}`;
      const count = (failures.get(place) || 0) + 1;
      failures.set(place, count);
      if (!error.times || count <= error.times) return sendJson(response, error.status, errorBody(error), error.headers);
    }
    const streamed = kind === 'gemini' ? /stream/.test(url) : parsed.stream;
    if (streamed) await streamAnswer(kind, chosen, model, response, gates);
    else {
      const { answer, step } = chosen;
      sendJson(response, 200, PROTOCOLS[kind].whole({ answer, step, nonce: randomId(), model }));
    }
    log.append({ n, done: true });
  }

  return http.createServer(async (request, response) => {
    requests += 1;
    const n = requests;
    const { url } = request;
    try {
      const body = (await readBody(request)).toString();
      if (url.startsWith('/_')) return await control(request, response, url, body);
      if (/count_tokens/.test(url)) return sendJson(response, 200, { input_tokens: 1234 });
      if (/:countTokens/.test(url)) return sendJson(response, 200, { totalTokens: 1234 });
      if (/\/models(\?|$)/.test(url) && request.method === 'GET') {
        const entry = { id: 'scripted', object: 'model', created: 0, owned_by: 'local' };
        return sendJson(response, 200, { object: 'list', data: [entry], has_more: false });
      }
      const kind = protocolOf(url);
      if (kind) return await answerModel(kind, request, response, url, body);
      log.append({ n, method: request.method, url, unknown_route: true });
      return sendJson(response, 404, { error: { message: `no such route ${url}`, type: 'not_found_error' } });
    } catch (failure) {
      log.append({ n, url, aborted: String(failure.message || failure) });
      if (response.headersSent || failure instanceof StreamEnded) response.destroy();
      else sendJson(response, 400, { error: { message: String(failure.message || failure), type: 'invalid_request_error' } });
    }
    return undefined;
  });
}

function main(argv) {
  const flags = { scripts: null, exitWithStdin: false };
  const plain = [];
  for (let i = 0; i < argv.length; i += 1) {
    if (argv[i] === '--scripts') flags.scripts = argv[(i += 1)];
    else if (argv[i] === '--exit-with-stdin') flags.exitWithStdin = true;
    else plain.push(argv[i]);
  }
  const scripts = flags.scripts ? JSON.parse(fs.readFileSync(flags.scripts, 'utf8')) : {};
  const server = createModel({ logFile: plain[1], scripts });
  server.on('error', (failure) => {
    console.error(`model server: cannot listen on 127.0.0.1:${plain[0]}: ${failure.message}; choose another port, or 0`);
    process.exit(1);
  });
  server.listen(Number(plain[0] || 0), '127.0.0.1', () => console.log('model on', server.address().port));
  if (flags.exitWithStdin) process.stdin.on('close', () => process.exit(0)).on('error', () => process.exit(0)).resume();
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
