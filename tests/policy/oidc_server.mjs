// A real OpenID provider for the tests: tokens by client credentials, JWT for some resources, opaque for others.
// Prints its issuer. SIGUSR1 rotates the signing key: tokens of the old one are no longer valid.
import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';
import Provider from 'oidc-provider';

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
let generation = 0;

function signingKey() {
  generation += 1;
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { ...privateKey.export({ format: 'jwk' }), kid: `key-${generation}`, use: 'sig', alg: 'ES256' };
}

function client(client_id) {
  return {
    client_id, client_secret: `${client_id}-secret`, grant_types: ['client_credentials'],
    redirect_uris: [], response_types: [], scope: 'mcp admin', id_token_signed_response_alg: 'ES256',
  };
}

function provider() {
  return new Provider(issuer, {
    clients: [client('alice'), client('bob'), client('gateway')],
    jwks: { keys: [signingKey()] },
    scopes: ['mcp', 'admin'],
    features: {
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (ctx, resource) => ({
          scope: 'mcp admin',
          audience: resource,
          accessTokenTTL: 300,
          accessTokenFormat: resource.includes('opaque') ? 'opaque' : 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  });
}

let answer = provider().callback();
server.on('request', (request, response) => answer(request, response));
process.on('SIGUSR1', () => { answer = provider().callback(); console.log('rotated'); });
console.log(issuer);
