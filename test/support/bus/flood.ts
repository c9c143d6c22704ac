import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { endProcess } from '../end-process.ts';

/**
 * Sends what it reads from stdin on as many connections as it is told, once or without an end, and
 * says when it has begun.
 */
const FLOODER = `
const [path, connections, times] = process.argv.slice(1);
const chunks = [];
process.stdin.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
  const calls = Buffer.concat(chunks);
  for (let at = 0; at < Number(connections); at += 1) {
    const socket = require('node:net').connect(path);
    socket.write('\\0AUTH EXTERNAL ' + Buffer.from(String(process.getuid())).toString('hex') + '\\r\\n');
    socket.once('data', () => {
      socket.write('BEGIN\\r\\n');
      socket.on('data', () => undefined);
      const send = () => socket.write(calls, () => times === 'once' || setTimeout(send, 50));
      send();
      console.log('sent');
    });
  }
});
`;

/** A process of another user that sends calls without reading what comes back in time. */
interface Flood {
  isRunning(): boolean;
  stop(): Promise<void>;
}

/**
 * Sends `calls`, which begin with a login, on so many connections, and resolves once it has begun.
 * Needs `have('root')`.
 */
export async function startFlood(
  uid: number,
  address: string,
  calls: Buffer,
  [connections, times]: readonly [connections: string, times: string],
): Promise<Flood> {
  const identity = [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'];
  const socket = address.replace('unix:path=', '');
  const child = spawn('setpriv', [...identity, process.execPath, '-e', FLOODER, socket, connections, times], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(calls);
  await once(child.stdout, 'data');
  return {
    isRunning: () => child.exitCode === null,
    stop: () => endProcess(child, 'SIGKILL'),
  };
}
