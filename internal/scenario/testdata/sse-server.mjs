// A server-sent-event stream that only goes on when it is told that the last
// event has been seen: GET /events streams, POST /next lets one event go, and
// POST /end ends the stream. Prints {"port":N}, and {"gone":true} when a
// client has left its stream.
import { createServer } from 'node:http';

let stream = null;
let count = 0;

const server = createServer((req, res) => {
  if (req.url === '/events') {
    stream = res;
    res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
    res.flushHeaders();
    res.on('close', () => { if (!res.writableFinished) console.log(JSON.stringify({ gone: true })); });
    return;
  }
  if (req.url === '/next' && stream) {
    count += 1;
    stream.write(`id: ${count}\ndata: event ${count}\n\n`);
  } else if (req.url === '/end' && stream) {
    stream.end();
  }
  res.writeHead(204).end();
});
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
