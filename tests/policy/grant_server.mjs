// A real OpenID provider whose users agree to everything: registration, PKCE, rotating refresh tokens, and the
// grants that exchange a token. `TOKEN_SECONDS` is how long its tokens last. Prints its issuer.
import { createServer } from 'node:http';
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import Provider from 'oidc-provider';

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const key = { ...privateKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'ES256' };
const seconds = Number(process.env.TOKEN_SECONDS ?? 300);
const log = (line) => console.log(JSON.stringify(line));

function resourceServer(resource) {
  return {
    scope: 'mcp write', audience: resource, accessTokenTTL: seconds, accessTokenFormat: 'jwt',
    jwt: { sign: { alg: 'ES256' } },
  };
}

function client(client_id, grant_types) {
  return {
    client_id, client_secret: `${client_id}-secret`, grant_types, redirect_uris: [], response_types: [],
    scope: 'mcp write', id_token_signed_response_alg: 'ES256',
  };
}

const provider = new Provider(issuer, {
  clients: [client('alice', ['client_credentials']), client('bob', ['client_credentials']),
    client('gateway', [EXCHANGE, JWT_BEARER])],
  jwks: { keys: [key] },
  scopes: ['mcp', 'write', 'openid', 'offline_access'],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (ctx, interaction) => `/agree/${interaction.uid}` },
  extraTokenClaims: (ctx) => ctx.exchanged,
  ttl: { RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600, AuthorizationCode: 60 },
  features: {
    clientCredentials: { enabled: true },
    dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => true },
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true, getResourceServerInfo: (ctx, resource) => resourceServer(resource),
      useGrantedResource: () => true,
    },
  },
});

function claims(token) {
  const [head, body, signature] = token.split('.');
  const good = verify('sha256', Buffer.from(`${head}.${body}`),
    { key: createPublicKey({ key, format: 'jwk' }), dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url'));
  if (!good) throw new Error('not a token of ours');
  return JSON.parse(Buffer.from(body, 'base64url'));
}

async function exchange(ctx, subject, audience, how) {
  const told = claims(subject);
  const token = new provider.ClientCredentials({ client: ctx.oidc.client, scope: ctx.oidc.params.scope ?? 'mcp' });
  token.resourceServer = new provider.ResourceServer(audience, resourceServer(audience));
  ctx.exchanged = { act_for: told.sub, how };
  ctx.body = {
    access_token: await token.save(), token_type: 'Bearer', expires_in: seconds,
    issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
  };
}

provider.registerGrantType(EXCHANGE, async (ctx) => {
  log({ grant: 'exchange', params: ctx.oidc.params });
  await exchange(ctx, ctx.oidc.params.subject_token, ctx.oidc.params.audience, 'exchange');
}, ['audience', 'subject_token', 'subject_token_type', 'requested_token_type', 'scope'], []);
provider.registerGrantType(JWT_BEARER, async (ctx) => {
  log({ grant: 'on_behalf_of', params: ctx.oidc.params });
  if (ctx.oidc.params.requested_token_use !== 'on_behalf_of') ctx.throw(400, 'not asked on behalf of anybody');
  await exchange(ctx, ctx.oidc.params.assertion, ctx.oidc.params.audience, 'on_behalf_of');
}, ['audience', 'assertion', 'requested_token_use', 'scope'], []);
provider.on('grant.success', (ctx) => log({ grant: ctx.oidc.params.grant_type, client: ctx.oidc.client.clientId }));
provider.on('registration_create.success', (ctx, made) => log({ registered: made.clientId }));
provider.on('grant.error', (ctx, error) => log({ refused: error.error, why: error.error_description }));

const answer = provider.callback();
server.on('request', async (request, response) => {
  if (!request.url.startsWith('/agree/')) return answer(request, response);
  const { params } = await provider.interactionDetails(request, response);
  const grant = new provider.Grant({ accountId: 'ada', clientId: params.client_id });
  grant.addOIDCScope('openid offline_access mcp write');
  if (params.resource) grant.addResourceScope(params.resource, 'mcp write');
  const result = { login: { accountId: 'ada' }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
});
console.log(issuer);
