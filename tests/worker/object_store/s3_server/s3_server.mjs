// Serves the files of a folder as objects of the bucket "bucket" by s3rver,
// which does not check signatures of version 4; that is done here, by the aws4
// library.
//
//   s3_server.mjs INSTALLED FOLDER SECRET [TOKEN]
//
// Keys are the names of the files, with their %XX decoded. Prints its port. The
// access key id is S3RVER.
import {mkdtempSync, readdirSync, readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const [installed, folder, secret, token] = process.argv.slice(2);
const require = createRequire(installed);
const S3rver = require('s3rver');
const aws4 = require('aws4');
const credentials = {accessKeyId: 'S3RVER', secretAccessKey: secret};
const scope = {service: 's3', region: 'eu-west-9'};

// Whether the request has the signature that aws4 would give it.
function isSigned(request) {
  const given = request.headers.authorization ?? '';
  const names = /SignedHeaders=([^,]*)/.exec(given)?.[1].split(';') ?? [];
  const headers = {};
  for (const name of names) headers[name] = request.headers[name];
  for (const name of ['host', 'x-amz-content-sha256', 'x-amz-date']) {
    if (headers[name] === undefined) return false;
  }
  if (token && headers['x-amz-security-token'] !== token) return false;
  const {method, url: path} = request;
  return aws4.sign({method, path, headers, ...scope}, credentials)
      .headers.Authorization === given;
}

const s3 = new S3rver({
  directory: mkdtempSync(join(tmpdir(), 's3-')),
  silent: true,
  configureBuckets: [{name: 'bucket'}],
});
await s3.configureBuckets();
const answer = s3.callback();
const server = createServer((request, response) => {
  if (isSigned(request)) return answer(request, response);
  response.writeHead(403).end('SignatureDoesNotMatch');
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const {port} = server.address();
for (const name of readdirSync(folder)) {
  const body = readFileSync(join(folder, name));
  const headers = token ? {'x-amz-security-token': token} : {};
  const put = aws4.sign({
    method: 'PUT', host: `127.0.0.1:${port}`, path: `/bucket/${name}`, headers,
    body, ...scope,
  }, credentials);
  const {status} = await fetch(`http://127.0.0.1:${port}${put.path}`, put);
  if (status !== 200) throw new Error(`${name}: ${status}`);
}
console.log(port);
