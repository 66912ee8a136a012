// Takes connections over TLS and passes what they carry on to a port of this
// machine.
//
//   tls_front.mjs CERTIFICATE KEY PORT
//
// Prints its own port.
import {readFileSync} from 'node:fs';
import {connect} from 'node:net';
import {createServer} from 'node:tls';

const [certificate, key, port] = process.argv.slice(2);
const options = {cert: readFileSync(certificate), key: readFileSync(key)};
const server = createServer(options, (client) => {
  const service = connect(Number(port), '127.0.0.1');
  client.on('error', () => service.destroy());
  service.on('error', () => client.destroy());
  client.pipe(service).pipe(client);
});
// A client that does not trust the certificate ends the handshake.
server.on('tlsClientError', () => {});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
console.log(server.address().port);
