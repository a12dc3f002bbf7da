// The service at which codex is signed in by a code, on 127.0.0.1: what auth.openai.com and the account's own server are to it
// (docs/agents-probes.md, section 16). opencode is signed in at the same one by a plugin of ours (opencode-sign-in.mjs).
//
//   node issuer.mjs
//
// "issuer on PORT" is printed when it listens. It ends with its stdin.
//
//   PUT /_person/enters    the person enters the code of the newest sign-in
//   PUT /_person/refuses   the person says no to it
//   GET /_begun            how many sign-ins were begun
import http from 'node:http';

const ACCOUNT = 'account-of-a-test';
const claims = {
  email: 'ada@example.org',
  exp: 4102444800,
  'https://api.openai.com/auth': { chatgpt_account_id: ACCOUNT, chatgpt_user_id: 'ada', chatgpt_plan_type: 'plus' },
};
const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const token = [part({ alg: 'none' }), part(claims), part('signature')].join('.');

/** What was said to each sign-in, by its own name, in order. */
const said = new Map();

function newest(verdict) {
  const names = [...said.keys()];
  if (names.length > 0) said.set(names.at(-1), verdict);
  return [200, { begun: names.length }];
}

function answer(method, path, body) {
  if (path === '/_person/enters') return newest('entered');
  if (path === '/_person/refuses') return newest('refused');
  if (path === '/_begun') return [200, { begun: said.size }];
  if (path === '/api/accounts/deviceauth/usercode') {
    const name = `device-${said.size + 1}`;
    said.set(name, 'waits');
    return [200, { device_auth_id: name, user_code: `CODE-000${said.size}`, interval: '1' }];
  }
  if (path === '/api/accounts/deviceauth/token') {
    const verdict = said.get(JSON.parse(body).device_auth_id);
    if (verdict === 'entered') return [200, { authorization_code: 'once', code_challenge: 'c', code_verifier: 'v' }];
    return verdict === 'refused' ? [400, { error: 'access_denied' }] : [403, { error: 'authorization_pending' }];
  }
  if (path === '/oauth/token') return [200, { id_token: token, access_token: token, refresh_token: 'again' }];
  if (path === '/backend-api/wham/accounts/check') {
    const entry = { id: ACCOUNT, account_routing_override: 'NO_CONSTRAINT', workspace_backend_origin: 'https://chatgpt.com', structure: 'personal' };
    return [200, { accounts: [entry], default_account_id: ACCOUNT, account_ordering: [ACCOUNT] }];
  }
  return [404, { error: `${method} ${path}` }];
}

const server = http.createServer((request, response) => {
  let body = '';
  request.on('data', (piece) => (body += piece));
  request.on('end', () => {
    const [status, result] = answer(request.method, request.url.split('?')[0], body);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(result));
  });
});
server.listen(0, '127.0.0.1', () => console.log('issuer on', server.address().port));
process.stdin.on('close', () => process.exit(0)).on('error', () => process.exit(0)).resume();
