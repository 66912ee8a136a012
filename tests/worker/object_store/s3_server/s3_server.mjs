// Serves the files of a folder as objects of the bucket "bucket" by s3rver, and
// takes more. s3rver does not check signatures of version 4; that is done here,
// by the aws4 library. Nor does it list and abort multipart uploads, or refuse
// the parts and the end of one that is gone; that is done here as well, on its
// files.
//
//   s3_server.mjs INSTALLED FOLDER SECRET [TOKEN]
//
// Keys are the names of the files, with their %XX decoded. Prints its port. The
// access key id is S3RVER. s3rver's own files lie in FOLDER.s3; each request's
// method, URL and time are a line of FOLDER.requests.
//
// Each line of FOLDER.faults, which is read at each request, is
// "TIMES ACTION PATTERN": the first so many requests of which method and URL
// match the pattern get
//   503      that answer at once
//   hang     no answer
//   garble   the first byte of their body changed
//   lose     what they want, but no answer
//   cut      an answer that breaks off after 100,000 bytes
//   tagBYTES the tag that S3 gives an object put together of parts of so many
//            bytes; s3rver gives it that of one put as a whole
import {appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync,
        rmSync, statSync} from 'node:fs';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {join} from 'node:path';

const [installed, folder, secret, token] = process.argv.slice(2);
const require = createRequire(installed);
const crypto = require('crypto');
const S3rver = require('s3rver');
const aws4 = require('aws4');
const credentials = {accessKeyId: 'S3RVER', secretAccessKey: secret};
const scope = {service: 's3', region: 'eu-west-9'};
const directory = `${folder}.s3`;
const uploads = join(directory, 'bucket', '._S3rver_uploads');

// s3rver makes the tokens of its listings' pages by DES, which today's OpenSSL
// does not have any more.
for (const name of ['createCipheriv', 'createDecipheriv']) {
  const create = crypto[name];
  crypto[name] = (algorithm, key, iv) => algorithm === 'des' ?
      create('aes-128-cbc', Buffer.concat([key, key]),
             Buffer.concat([iv, iv])) :
      create(algorithm, key, iv);
}

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

const used = new Map();
// The fault that the request gets; undefined for none.
function findFault(what) {
  const path = `${folder}.faults`;
  if (!existsSync(path)) return undefined;
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const [, times, action, pattern] = /^(\d+) (\w+) (.*)$/.exec(line) ?? [];
    if (!pattern || !new RegExp(pattern).test(what)) continue;
    const count = used.get(line) ?? 0;
    if (count >= Number(times)) continue;
    used.set(line, count + 1);
    return action;
  }
  return undefined;
}

function garble(request) {
  const push = request.push;
  let first = true;
  request.push = (chunk, encoding) => {
    if (first && chunk?.length) {
      chunk = Buffer.from(chunk);
      chunk[0] ^= 1;
      first = false;
    }
    return push.call(request, chunk, encoding);
  };
}

function lose(response) {
  response.write = () => true;
  response.end = () => response.socket.destroy();
}

function cut(response) {
  const write = response.write;
  let left = 100000;
  response.write = (chunk, ...rest) => {
    if (chunk.length <= left) {
      left -= chunk.length;
      return write.call(response, chunk, ...rest);
    }
    write.call(response, chunk.subarray(0, left),
               () => response.socket?.destroy());
    response.write = () => true;
    return true;
  };
}

function md5(data) {
  return crypto.createHash('md5').update(data).digest();
}

function retag(url, bytes, response) {
  const {pathname} = new URL(url, 'http://server');
  const data = readFileSync(
      `${join(directory, decodeURIComponent(pathname))}._S3rver_object`);
  const parts = [];
  for (let i = 0; i < data.length; i += bytes) {
    parts.push(md5(data.subarray(i, i + bytes)));
  }
  const tag = `"${md5(Buffer.concat(parts)).toString('hex')}-${parts.length}"`;
  const {setHeader} = response;
  response.setHeader = (name, value) => setHeader.call(
      response, name, name.toLowerCase() === 'etag' ? tag : value);
}

// Whether the upload has begun and has neither ended nor been aborted.
function isUpload(id) {
  return existsSync(join(uploads, id.replace(/\W/g, ''), 'key'));
}

function refuseUpload(response) {
  response.writeHead(404).end('<Error><Code>NoSuchUpload</Code></Error>');
}

function listUploads(response) {
  const ids =
      existsSync(uploads) ? readdirSync(uploads).filter(isUpload) : [];
  const entries = ids.map((id) => {
    const key = readFileSync(join(uploads, id, 'key'), 'utf8');
    const initiated = statSync(join(uploads, id, 'key')).mtime.toISOString();
    return `<Upload><Key>${key}</Key><UploadId>${id}</UploadId>` +
        `<Initiated>${initiated}</Initiated></Upload>`;
  });
  response.end(`<ListMultipartUploadsResult>${entries.join('')}` +
               '<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>');
}

function abortUpload(id, response) {
  const path = join(uploads, id.replace(/\W/g, ''));
  response.statusCode = existsSync(path) ? 204 : 404;
  rmSync(path, {recursive: true, force: true});
  response.end();
}

mkdirSync(directory, {recursive: true});
const s3 = new S3rver({
  directory,
  silent: true,
  configureBuckets: [{name: 'bucket'}],
});
await s3.configureBuckets();
const answer = s3.callback();
const server = createServer((request, response) => {
  const {method, url} = request;
  appendFileSync(`${folder}.requests`, `${method} ${url} ${Date.now()}\n`);
  if (!isSigned(request)) {
    return response.writeHead(403).end('SignatureDoesNotMatch');
  }
  const fault = findFault(`${method} ${url}`);
  if (fault === 'hang') return undefined;
  if (fault === '503') return response.writeHead(503).end('SlowDown');
  if (fault === 'garble') garble(request);
  if (fault === 'lose') lose(response);
  if (fault === 'cut') cut(response);
  if (fault?.startsWith('tag')) retag(url, Number(fault.slice(3)), response);
  const query = new URL(url, 'http://server').searchParams;
  if (method === 'GET' && query.has('uploads')) return listUploads(response);
  if (method === 'DELETE' && query.has('uploadId')) {
    return abortUpload(query.get('uploadId'), response);
  }
  if (query.has('uploadId') && !isUpload(query.get('uploadId'))) {
    return refuseUpload(response);
  }
  return answer(request, response);
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
