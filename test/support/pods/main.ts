import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createPods, type WantedPods } from './pods.ts';

/*
 * What stands where kubelet stands on a machine for tests: makes what runs what the file says, a
 * JSON object of images by pod, and ends. Containers go on without it.
 */

const { values, positionals } = parseArgs({
  options: { socket: { type: 'string' }, 'proto-root': { type: 'string' } },
  allowPositionals: true,
});
const [file] = positionals;
const { socket, 'proto-root': protoRoot } = values;
if (socket === undefined || protoRoot === undefined || file === undefined) {
  throw new Error('usage: pods --socket SOCKET --proto-root FOLDER FILE');
}
const pods = createPods({ socketPath: socket, protoRoot });
// A failure ends the process with its stack and exit code 1.
void pods
  .sync(JSON.parse(readFileSync(file, 'utf8')) as WantedPods)
  .then((ids) => process.stdout.write(`${JSON.stringify(ids)}\n`))
  .finally(pods.close);
