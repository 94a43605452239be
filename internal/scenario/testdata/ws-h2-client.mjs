// A WebSocket client over HTTP/2 (RFC 8441): an extended CONNECT, then frames
// written and read by ws on the stream. Prints what it saw.
// usage: ws-h2-client.mjs ORIGIN PATH CA-FILE
import { readFileSync } from 'node:fs';
import { connect } from 'node:http2';
import { createRequire } from 'node:module';

const require = createRequire(process.env.PQGW_NODE_MODULES + '/');
const { Sender, Receiver } = require('ws');

const [origin, path, caFile] = process.argv.slice(2);
const messages = ['hello', 'x'.repeat(300000), 'bye'];
const result = { offered: false, status: 0, protocol: null, echoes: 0, code: null };

function finish() {
  console.log(JSON.stringify(result));
  process.exit(0);
}
function fail(what) {
  result.error = String(what);
  finish();
}

const session = connect(origin, { ca: readFileSync(caFile) });
setTimeout(() => fail('timeout'), 20000).unref();
session.on('error', fail);
session.on('remoteSettings', (settings) => {
  result.offered = settings.enableConnectProtocol === true;
  if (!result.offered) return fail('SETTINGS_ENABLE_CONNECT_PROTOCOL is not set');
  const stream = session.request({
    ':method': 'CONNECT',
    ':protocol': 'websocket',
    ':path': path,
    'sec-websocket-version': '13',
    'sec-websocket-protocol': 'other, echo',
  }, { endStream: false });
  stream.on('error', fail);
  stream.on('response', (headers) => {
    result.status = headers[':status'];
    result.protocol = headers['sec-websocket-protocol'];
    if (result.status !== 200) return fail(`status ${result.status}`);
    talk(stream);
  });
});

function talk(stream) {
  const sender = new Sender(stream, {});
  const receiver = new Receiver({ isServer: false, maxPayload: 1 << 20 });
  const next = () => {
    if (result.echoes === messages.length) return sender.close(4002, 'done', true);
    sender.send(Buffer.from(messages[result.echoes]), { fin: true, binary: false, mask: true, compress: false });
  };
  receiver.on('message', (data) => {
    if (data.toString() !== messages[result.echoes]) return fail(`echo ${result.echoes} differs`);
    result.echoes += 1;
    next();
  });
  receiver.on('conclude', (code) => { result.code = code; stream.end(); });
  receiver.on('error', fail);
  stream.on('data', (chunk) => receiver.write(chunk));
  stream.on('end', () => { if (result.code !== null) finish(); else fail('the stream ended before a close frame'); });
  next();
}
