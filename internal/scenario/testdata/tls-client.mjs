// A TLS 1.3 client that offers exactly the groups it is told to, asks for one
// page over HTTP/1.1, and prints what came of it.
// usage: tls-client.mjs HOST PORT GROUPS CA-FILE SERVER-NAME
import { readFileSync } from 'node:fs';
import tls from 'node:tls';

const [host, port, groups, caFile, servername] = process.argv.slice(2);

function finish(result) {
  console.log(JSON.stringify(result));
  process.exit(0);
}

const socket = tls.connect({
  host,
  port: Number(port),
  servername,
  ca: readFileSync(caFile),
  ecdhCurve: groups,
  minVersion: 'TLSv1.3',
  ALPNProtocols: ['http/1.1'],
});
socket.setTimeout(20000, () => finish({ error: 'timeout' }));
socket.on('error', (err) => finish({ error: err.code, reason: err.reason, message: err.message }));
socket.on('secureConnect', () => {
  const facts = {
    group: socket.getEphemeralKeyInfo().name,
    version: socket.getProtocol(),
    alpn: socket.alpnProtocol,
    authorized: socket.authorized,
  };
  let answer = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk) => { answer += chunk; });
  socket.on('end', () => {
    const [head, ...body] = answer.split('\r\n\r\n');
    finish({ ...facts, status: Number(head.split(' ')[1]), body: body.join('\r\n\r\n') });
  });
  socket.write(`GET / HTTP/1.1\r\nHost: ${servername}\r\nAccept: application/json\r\nConnection: close\r\n\r\n`);
});
