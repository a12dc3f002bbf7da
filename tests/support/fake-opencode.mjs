// A program that claims to be opencode: node fake-opencode.mjs MODE
//
//   silent    listens and never answers
//   mute      says nothing, not even where it listens
//   huge      answers its agents with a body that does not end
//   garbage   its stream of events is none, and does not end
//   long      its stream is one event that does not end
//   gone      once its stream was opened, cuts it and is never reached again, but lives
//   deaf      takes everything but a prompt, which it never answers
//   denies    refuses every call
//   endless   works on a prompt and ends, and never says that it ended
//   asks      asks before it goes on with a prompt, and never says so
//   stalls    never answers a prompt, and fails for a while to say what stands in the conversation
//   refuses   asks, and fails at the first answer
//   forgets   asks, and never says what became of the first answer
//   settles   has a subagent that asks, and fails at the first answer
//   long-past a conversation of 1,000 messages, 100 turns of ten, with large pictures in the last
//   between   works on a prompt, and whoever stands before it answers that it did not come in time
//   unheard   works, fails to stop, and goes on to the end once it is asked for its commands
//   swallows  takes a prompt and never does anything about it
import http from 'node:http';

const mode = process.argv[2];
const json = (response, value, status = 200) => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
};
const session = { id: 'ses_1', directory: process.cwd(), permission: [], time: { created: 1 } };
const kid = { ...session, id: 'ses_2', parentID: session.id, title: 'kid' };
const stalls = mode === 'deaf' || mode === 'stalls';
const answers = [];
let reads = 0;

const messages = [];
const streams = new Set();
let working = {};
const say = (type, properties) => {
  for (const stream of streams) stream.write(`data: ${JSON.stringify({ payload: { type, properties } })}\n\n`);
};
const asked = {
  id: 'per_1', sessionID: mode === 'settles' ? kid.id : session.id, permission: 'bash', patterns: ['ls'], always: [], metadata: { command: 'ls' },
};

// Begins with a prompt, and in most modes does not tell all that comes of it.
const work = (body) => {
  const { messageID, parts } = JSON.parse(body);
  const user = { id: messageID, sessionID: session.id, role: 'user', time: { created: 2 } };
  const said = { ...parts[0], id: 'prt_1', sessionID: session.id, messageID };
  messages.push({ info: user, parts: [said] });
  say('message.updated', { sessionID: session.id, info: user });
  say('message.part.updated', { sessionID: session.id, part: said });
  working = { [session.id]: { type: 'busy' } };
  say('session.status', { sessionID: session.id, status: { type: 'busy' } });
  if (mode === 'asks') return;
  if (mode === 'settles') {
    working[kid.id] = { type: 'busy' };
    say('session.created', { sessionID: kid.id, info: kid });
  }
  if (['refuses', 'forgets', 'settles'].includes(mode)) return say('permission.asked', asked);
  if (mode === 'unheard') return (goOn = () => finish(messageID));
  finish(messageID);
};
let goOn = () => {};

const finish = (messageID) => {
  const info = { id: `${messageID}~`, sessionID: session.id, role: 'assistant', parentID: messageID, time: { created: 3 } };
  say('message.updated', { sessionID: session.id, info });
  const text = { id: 'prt_2', sessionID: session.id, messageID: info.id, type: 'text', text: 'done', time: { start: 3, end: 4 } };
  const completed = { ...info, time: { created: 3, completed: 4 } };
  messages.push({ info: completed, parts: [text] });
  working = {};
  if (mode !== 'unheard') return;
  say('message.part.updated', { sessionID: session.id, part: text });
  say('message.updated', { sessionID: session.id, info: completed });
  say('session.status', { sessionID: session.id, status: { type: 'idle' } });
};

if (mode === 'long-past') {
  const url = `data:image/png;base64,${'A'.repeat(25 << 20)}`;
  for (let at = 0; at < 1000; at++) {
    const id = `msg_${String(at).padStart(4, '0')}`;
    const begins = at % 10 === 0;
    const parts = [{ id: `prt_${at}`, sessionID: session.id, messageID: id, type: 'text', text: `${at}`, ...(begins ? {} : { time: { start: 3, end: 4 } }) }];
    if (begins && at >= 970) parts.push({ id: `file_${at}`, sessionID: session.id, messageID: id, type: 'file', mime: 'image/png', url });
    const info = { id, sessionID: session.id, role: begins ? 'user' : 'assistant', time: { created: 2, completed: 3 } };
    messages.push({ info: begins ? info : { ...info, parentID: `msg_${String(at - (at % 10)).padStart(4, '0')}` }, parts });
  }
}

// A page of the conversation, which ends before the message that its cursor names.
const page = (response, query) => {
  const before = query.get('before');
  const end = before === null ? messages.length : messages.findIndex(({ info }) => info.id === before);
  const from = Math.max(0, end - Number(query.get('limit')));
  if (from > 0) response.setHeader('x-next-cursor', messages[from].info.id);
  return json(response, messages.slice(from, end));
};

// Writes pieces as fast as they are read.
const flood = (response, piece) => {
  const more = () => {
    while (response.write(piece));
    response.once('drain', more);
  };
  more();
};

const server = http.createServer((request, response) => {
  const path = new URL(request.url, 'http://x').pathname;
  const { method } = request;
  if (method === 'POST' && path.endsWith('/prompt_async') && !stalls) {
    let body = '';
    request.on('data', (data) => (body += data));
    request.on('end', () => {
      response.writeHead(mode === 'between' ? 504 : 204);
      response.end();
      if (mode !== 'swallows') work(body);
    });
    return;
  }
  if (['POST', 'PATCH'].includes(method) && /^\/session(\/ses_1)?$/.test(path)) {
    let body = '';
    request.on('data', (data) => (body += data));
    request.on('end', () => {
      session.permission.push(...(JSON.parse(body).permission ?? []));
      json(response, session);
    });
    return;
  }
  if (method === 'POST' && path === '/permission/per_1/reply') {
    let body = '';
    request.on('data', (data) => (body += data));
    request.on('end', () => {
      if (answers.push(JSON.parse(body)) > 1) {
        json(response, true);
        say('permission.replied', { sessionID: asked.sessionID, requestID: asked.id, reply: 'once' });
      } else if (mode !== 'forgets') json(response, { message: 'out of memory' }, 500);
    });
    return;
  }
  request.resume();
  if (path.endsWith('/abort') && mode === 'unheard') {
    return json(response, { message: 'out of memory' }, 500);
  }
  if (path === '/command') {
    json(response, []);
    return goOn();
  }
  if (mode === 'silent') return;
  if (mode === 'denies') return json(response, { _tag: 'Denied', message: 'not today' }, 403);
  if (path === '/global/health') return json(response, { healthy: true, version: 'fake' });
  if (path === '/agent') {
    if (mode !== 'huge') return json(response, []);
    response.writeHead(200);
    return flood(response, `["${'x'.repeat(1 << 20)}",`);
  }
  if (path === '/config/providers') return json(response, { providers: [] });
  if (path === '/session/status') return json(response, working);
  if (path === '/permission' && working[asked.sessionID] && answers.length < 2) return json(response, [asked]);
  if (path === '/permission' || path === '/question' || path.endsWith('/children')) return json(response, []);
  if (path.endsWith('/message') && mode === 'stalls' && reads++ < 2) return json(response, { message: 'busy' }, 500);
  if (path.endsWith('/message')) return page(response, new URL(request.url, 'http://x').searchParams);
  if (method === 'DELETE') {
    const at = messages.findIndex(({ info }) => path.endsWith(`/${info.id}`));
    messages.splice(at, 1);
    return json(response, true);
  }
  if (path.endsWith('/prompt_async')) return;
  if (path === '/global/event') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"payload":{"type":"server.connected","properties":{}}}\n\n');
    if (mode === 'garbage') return flood(response, 'data: {{{\n\n'.repeat(1000));
    if (mode === 'long') {
      response.write('data: ');
      return flood(response, 'x'.repeat(1 << 20));
    }
    streams.add(response);
    response.on('close', () => streams.delete(response));
    if (mode === 'gone') {
      server.close();
      setTimeout(() => server.closeAllConnections(), 50);
    }
    return;
  }
  return json(response, session);
});
if (mode === 'mute') setInterval(() => {}, 1000);
else {
  server.listen(0, '127.0.0.1', () => {
    console.log(`opencode server listening on http://127.0.0.1:${server.address().port}`);
  });
}
if (mode === 'gone') setInterval(() => {}, 1000);
// opencode's own come every 10 s.
setInterval(() => say('server.heartbeat', {}), 50).unref();
