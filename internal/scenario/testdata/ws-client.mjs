// A WebSocket client over TLS and HTTP/1.1: opens, sends each message in turn
// and awaits its echo, closes with a code, and prints what it saw.
// usage: ws-client.mjs URL CA-FILE
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(process.env.PQGW_NODE_MODULES + '/');
const { WebSocket } = require('ws');

const [url, caFile] = process.argv.slice(2);
const messages = ['hello', Buffer.from([0, 1, 2, 255]), 'x'.repeat(300000), ''];
const result = { echoes: 0, protocol: null, code: null };

const socket = new WebSocket(url, ['other', 'echo'], { ca: readFileSync(caFile), perMessageDeflate: false });
setTimeout(() => { result.error = 'timeout'; finish(); }, 20000).unref();

function finish() {
  console.log(JSON.stringify(result));
  process.exit(0);
}

function next() {
  if (result.echoes === messages.length) return socket.close(4001, 'done');
  socket.send(messages[result.echoes]);
}

socket.on('open', () => { result.protocol = socket.protocol; next(); });
socket.on('message', (data, binary) => {
  const sent = messages[result.echoes];
  const same = Buffer.compare(data, Buffer.from(sent)) === 0 && binary === Buffer.isBuffer(sent);
  if (!same) { result.error = `echo ${result.echoes} differs`; return finish(); }
  result.echoes += 1;
  next();
});
socket.on('unexpected-response', (_, res) => { result.error = `status ${res.statusCode}`; finish(); });
socket.on('error', (err) => { result.error = err.message; finish(); });
socket.on('close', (code) => { result.code = code; finish(); });
