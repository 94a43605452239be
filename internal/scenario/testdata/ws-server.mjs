// A WebSocket echo server: text comes back as text, bytes as bytes; it chooses
// the subprotocol "echo" where that is offered and passes the close code back.
// Any other request is answered 200 "plain". Prints {"port":N} and, for each
// connection, {"opened":…} with what it saw of the request.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const require = createRequire(process.env.PQGW_NODE_MODULES + '/');
const { WebSocketServer } = require('ws');

const http = createServer((req, res) => res.end('plain'));
const sockets = new WebSocketServer({
  server: http,
  handleProtocols: (offered) => (offered.has('echo') ? 'echo' : false),
});
sockets.on('connection', (socket, req) => {
  console.log(JSON.stringify({ opened: req.url, host: req.headers.host, pq: req.headers['x-pq'], group: req.headers['x-pq-group'], version: req.httpVersion }));
  socket.on('message', (data, binary) => socket.send(data, { binary }));
  socket.on('close', (code) => console.log(JSON.stringify({ closed: code })));
});
http.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: http.address().port })));
