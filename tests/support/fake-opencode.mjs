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
import http from 'node:http';

const mode = process.argv[2];
const json = (response, value, status = 200) => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
};
const session = { id: 'ses_1', directory: process.cwd(), permission: [], time: { created: 1 } };

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
  request.resume();
  if (mode === 'silent') return;
  if (mode === 'denies') return json(response, { _tag: 'Denied', message: 'not today' }, 403);
  if (path === '/global/health') return json(response, { healthy: true, version: 'fake' });
  if (path === '/agent') {
    if (mode !== 'huge') return json(response, []);
    response.writeHead(200);
    return flood(response, `["${'x'.repeat(1 << 20)}",`);
  }
  if (path === '/config/providers') return json(response, { providers: [] });
  if (path === '/session/status') return json(response, {});
  if (path === '/permission' || path === '/question' || path.endsWith('/children')) return json(response, []);
  if (path.endsWith('/message')) return json(response, []);
  if (path.endsWith('/prompt_async')) return;
  if (path === '/global/event') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"payload":{"type":"server.connected","properties":{}}}\n\n');
    if (mode === 'garbage') return flood(response, 'data: {{{\n\n'.repeat(1000));
    if (mode === 'long') {
      response.write('data: ');
      return flood(response, 'x'.repeat(1 << 20));
    }
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
