// Self-test of the scripted model server: node --test tests/model
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createModel } from './model.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'pilothouse-model-'));
const logFile = path.join(dir, 'model.jsonl');
const server = createModel({ logFile });
let base;

before(async () => {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

const put = (url, body) => fetch(base + url, { method: 'PUT', body: JSON.stringify(body ?? '') });
const get = async (url) => (await fetch(base + url)).json();
const script = (name, steps) => put(`/_script/${name}`, steps);
const user = (text) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] });
const tools = [{ type: 'function', name: 'exec_command' }];

async function ask(input) {
  const response = await fetch(`${base}/v1/responses`, { method: 'POST', body: JSON.stringify({ input, tools, stream: true }) });
  const text = await response.text();
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)));
}
const itemsOf = (events) => events.find((e) => e.type === 'response.completed').response.output;

test('the step follows from the tool calls that the request already holds', async () => {
  await script('steps', [{ tools: [{ name: 'exec_command', args: { cmd: 'ls' } }] }, { text: 'done' }]);
  const [call] = itemsOf(await ask([user('[[script:steps]]')]));
  assert.equal(call.name, 'exec_command');
  const output = { type: 'function_call_output', call_id: call.call_id, output: 'a.txt' };
  const [reply] = itemsOf(await ask([user('[[script:steps]]'), call, output]));
  assert.equal(reply.content[0].text, 'done');
  const lines = fs.readFileSync(logFile, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const second = lines.find((line) => line.script === 'steps' && line.step === 1);
  assert.deepEqual(second.tool_results, [{ call: call.call_id, text: 'a.txt' }]);
});

test('a prompt delivered twice is seen in the marks', async () => {
  await script('twice', [{ text: 'ok' }]);
  await ask([user('[[script:twice]] [[id:once]]')]);
  await ask([user('[[script:twice]] [[id:again]]'), user('[[script:twice]] [[id:again]]')]);
  const { marks } = await get('/_log');
  assert.deepEqual(marks.once, { requests: 1, most_in_one_request: 1, newest_in: 1, first_steps: 1 });
  assert.equal(marks.again.most_in_one_request, 2);
});

test('a held step answers only after its release, and a waiter sees it arrive', async () => {
  await script('held', [{ text: 'free', hold: 'gate' }]);
  const answer = ask([user('[[script:held]]')]);
  assert.deepEqual(await get('/_wait/held?count=1'), { reached: true });
  const first = await Promise.race([answer.then(() => 'answered'), get('/_health').then(() => 'still held')]);
  assert.equal(first, 'still held');
  await put('/_release/gate');
  assert.equal(itemsOf(await answer)[0].content[0].text, 'free');
  assert.deepEqual(await get('/_wait/held?count=2&ms=1'), { reached: false });
});

test('a scripted error carries its own type and stops after its times', async () => {
  await script('broken', [{ text: 'fine', error: { status: 429, times: 1 } }]);
  const body = JSON.stringify({ input: [user('[[script:broken]]')], tools, stream: true });
  const failed = await fetch(`${base}/v1/responses`, { method: 'POST', body });
  assert.equal(failed.status, 429);
  assert.equal((await failed.json()).error.type, 'rate_limit_error');
  assert.equal(itemsOf(await ask([user('[[script:broken]]')]))[0].content[0].text, 'fine');
});

test('a stream that dies is cut without an end', async () => {
  await script('dies', [{ text: 'half', die: true }]);
  await assert.rejects(ask([user('[[script:dies]]')]));
});

test('each of the four protocols streams the same step', async () => {
  const steps = [{ think: 'hm', text: 'hello', tools: [{ name: 'run', args: { a: 1 } }] }];
  await script('all', steps);
  const prompt = '[[script:all]]';
  const requests = {
    '/v1/responses': { input: prompt, tools: [{ name: 'run' }], stream: true },
    '/v1/chat/completions': { messages: [{ role: 'user', content: prompt }], tools: [{ function: { name: 'run' } }], stream: true },
    '/v1/messages': { messages: [{ role: 'user', content: prompt }], tools: [{ name: 'run' }], stream: true },
    '/v1beta/models/g:streamGenerateContent?alt=sse': {
      contents: [{ role: 'user', parts: [{ text: prompt }] }],
      tools: [{ functionDeclarations: [{ name: 'run' }] }],
    },
  };
  for (const [url, body] of Object.entries(requests)) {
    const text = await (await fetch(base + url, { method: 'POST', body: JSON.stringify(body) })).text();
    assert.match(text, /hello/, url);
    assert.match(text, /c0n0_\w+/, url);
    const plain = await (await fetch(base + url.replace('streamG', 'g'), { method: 'POST', body: JSON.stringify({ ...body, stream: false }) })).text();
    assert.match(plain, /hello/, url);
  }
});

test('the effort is seen, whichever protocol said it', async () => {
  const requests = {
    '/v1/responses': { input: 'x', tools: [], reasoning: { effort: 'low' } },
    '/v1/chat/completions': { messages: [], reasoning_effort: 'high' },
    '/v1/messages': { messages: [], output_config: { effort: 'max' } },
  };
  for (const [url, body] of Object.entries(requests)) await fetch(base + url, { method: 'POST', body: JSON.stringify(body) });
  const lines = fs.readFileSync(logFile, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines.map((line) => line.effort).filter(Boolean).slice(-3), ['low', 'high', 'max']);
});

test('a request without tools gets a title', async () => {
  const body = JSON.stringify({ input: [user('[[script:steps]]')], tools: [] });
  const answer = await (await fetch(`${base}/v1/responses`, { method: 'POST', body })).json();
  assert.equal(answer.output[0].content[0].text, 'Scripted title');
});

test('a request without tools gets its script, and marks are told apart by who said them', async () => {
  const script = JSON.stringify([{ text: 'Summed up.' }]);
  await fetch(`${base}/_script/(no-tools)`, { method: 'PUT', body: script });
  const said = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'yes [[id:answer]]' }] };
  const body = JSON.stringify({ input: [user('go [[id:asked]]'), said], tools: [] });
  const answer = await (await fetch(`${base}/v1/responses`, { method: 'POST', body })).json();
  assert.equal(answer.output[0].content[0].text, 'Summed up.');
  const lines = fs.readFileSync(logFile, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const last = lines.findLast((line) => line.marks);
  assert.deepEqual([last.marks, last.answered], [{ asked: 1 }, { answer: 1 }]);
});

test('the program prints its port, loads scripts from a file and ends with its stdin', async () => {
  const file = path.join(dir, 'scripts.json');
  fs.writeFileSync(file, JSON.stringify({ loaded: [{ text: 'from file' }] }));
  const args = [path.join(HERE, 'model.mjs'), '0', '--scripts', file, '--exit-with-stdin'];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const line = await new Promise((resolve) => child.stdout.once('data', (data) => resolve(String(data))));
  const port = /^model on (\d+)\n$/.exec(line)[1];
  const body = JSON.stringify({ input: [user('[[script:loaded]]')], tools, stream: false });
  const answer = await (await fetch(`http://127.0.0.1:${port}/v1/responses`, { method: 'POST', body })).json();
  assert.equal(answer.output[0].content[0].text, 'from file');
  child.stdin.end();
  assert.equal(await new Promise((resolve) => child.once('exit', resolve)), 0);
});
