// A plugin of opencode that signs in to the provider `local` at tests/support/issuer.mjs, which SIGN_IN_ISSUER names, by the way
// that SIGN_IN_BY names: `page`, where the page is all, or `code`, where it shows a code at its end. Before it stand a key and a
// page that only a browser on opencode's own machine can finish.
const issuer = process.env.SIGN_IN_ISSUER;
const post = (path, body) => fetch(issuer + path, { method: 'POST', body: JSON.stringify(body) });

async function granted() {
  const { access_token, refresh_token } = await (await post('/oauth/token', {})).json();
  return { type: 'success', access: access_token, refresh: refresh_token, expires: 4102444800000 };
}

const atItsOwnMachine = {
  type: 'oauth',
  label: 'In a browser here',
  authorize: async () => ({
    url: `${issuer}/authorize?redirect_uri=${encodeURIComponent('http://localhost:1455/auth/callback')}`,
    instructions: 'Sign in in the window that opens.',
    method: 'auto',
    callback: async () => ({ type: 'failed' }),
  }),
};

const byPage = {
  type: 'oauth',
  label: 'At a page',
  async authorize() {
    const begun = await (await post('/api/accounts/deviceauth/usercode', {})).json();
    return {
      url: `${issuer}/device`,
      instructions: `Enter the code ${begun.user_code}`,
      method: 'auto',
      async callback() {
        for (;;) {
          const { status } = await post('/api/accounts/deviceauth/token', { device_auth_id: begun.device_auth_id });
          if (status === 200) return granted();
          if (status !== 403) return { type: 'failed' };
          await new Promise((done) => setTimeout(done, 100));
        }
      },
    };
  },
};

const byCode = {
  type: 'oauth',
  label: 'By a code',
  authorize: async () => ({
    url: `${issuer}/code`,
    instructions: 'Give back what the page shows.',
    method: 'code',
    callback: async (code) => (code === 'shown-at-the-end' ? granted() : { type: 'failed' }),
  }),
};

export const SignIn = async () => ({
  auth: {
    provider: 'local',
    loader: async (read) => {
      const known = await read();
      return known?.type === 'oauth' ? { apiKey: known.access } : {};
    },
    methods: [{ type: 'api', label: 'A key' }, atItsOwnMachine, process.env.SIGN_IN_BY === 'code' ? byCode : byPage],
  },
});
