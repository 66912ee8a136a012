// An issuer of OpenID Connect by oidc-provider, on a free port of 127.0.0.1.
//
//   issuer.mjs INSTALLED PORT KEYS REDIRECT_URI...
//
// PORT 0 lets the system choose. KEYS is a JSON Web Key Set with private keys.
// Prints its URL. It knows the public client "comera", whose redirect URIs are
// those given and each port of loopback, and lets everybody sign in as whoever
// they say: LOGIN is in the group LOGIN-s. Tokens of identity last as long as
// the file TTL beside KEYS says, in seconds, or an hour. Each request's method
// and path are a line of REQUESTS beside KEYS.
import {appendFileSync, existsSync, readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {dirname, join} from 'node:path';
import {pathToFileURL} from 'node:url';

const [installed, port, keys, ...redirects] = process.argv.slice(2);
const folder = dirname(keys);
const packages = createRequire(installed);
const {default: Provider} =
    await import(pathToFileURL(packages.resolve('oidc-provider')));

let handler;
const server = createServer((request, response) => {
  appendFileSync(join(folder, 'REQUESTS'),
                 `${request.method} ${request.url.split('?')[0]}\n`);
  handler(request, response);
});
server.listen(Number(port), '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const lifetime = () => existsSync(join(folder, 'TTL')) ?
      Number(readFileSync(join(folder, 'TTL'))) :
      3600;
  const provider = new Provider(issuer, {
    jwks: JSON.parse(readFileSync(keys)),
    clients: [{
      client_id: 'comera',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      redirect_uris: ['http://127.0.0.1/callback', ...redirects],
      id_token_signed_response_alg: 'RS256',
    }],
    conformIdTokenClaims: false,
    claims: {openid: ['sub'], groups: ['groups']},
    scopes: ['openid', 'offline_access', 'groups'],
    pkce: {required: () => true},
    cookies: {keys: ['a key of a test']},
    ttl: {
      IdToken: lifetime, AccessToken: 3600, AuthorizationCode: 60,
      Grant: 3600, Interaction: 3600, Session: 3600, RefreshToken: 3600,
    },
    findAccount: (context, id) => ({
      accountId: id,
      claims: () => ({sub: id, groups: [`${id}-s`]}),
    }),
  });
  handler = provider.callback();
  console.log(issuer);
});
