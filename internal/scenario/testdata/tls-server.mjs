// A TLS 1.3 server that has exactly the groups it is told to. Prints
// {"port":N}.
// usage: tls-server.mjs GROUPS CERT-FILE KEY-FILE
import { readFileSync } from 'node:fs';
import https from 'node:https';

const [groups, cert, key] = process.argv.slice(2);
const server = https.createServer(
  { cert: readFileSync(cert), key: readFileSync(key), ecdhCurve: groups, minVersion: 'TLSv1.3' },
  (req, res) => res.end(JSON.stringify({ url: req.url })),
);
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
