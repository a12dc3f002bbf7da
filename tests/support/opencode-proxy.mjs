// Stands before a real opencode, so that a test can cut its connections: node opencode-proxy.mjs FILE COMMAND…
//
// Starts COMMAND (with opencode's own arguments after it), waits until it listens, and says that it listens itself. While FILE is
// there, every connection is cut and none is taken. FILE.port holds opencode's own port.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';

const [file, program, ...rest] = process.argv.slice(2);
const child = spawn(program, rest, { stdio: ['ignore', 'pipe', 'inherit'] });
child.on('exit', (code) => process.exit(code ?? 1));
const open = new Set();
const isCut = () => fs.existsSync(file);

let said = '';
child.stdout.on('data', (data) => {
  said += data;
  const port = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1];
  if (!port) return;
  child.stdout.removeAllListeners('data');
  child.stdout.resume();
  fs.writeFileSync(`${file}.port`, port);
  const server = net.createServer((near) => {
    if (isCut()) return near.destroy();
    const far = net.connect(Number(port), '127.0.0.1');
    for (const [one, other] of [[near, far], [far, near]]) {
      open.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => (open.delete(one), other.destroy()));
    }
    near.pipe(far).pipe(near);
  });
  server.listen(0, '127.0.0.1', () => {
    console.log(`opencode server listening on http://127.0.0.1:${server.address().port}`);
  });
  setInterval(() => {
    if (isCut()) for (const socket of open) socket.destroy();
  }, 20);
});
