import { parseArgs } from 'node:util';
import { CriClient } from '../../../src/runtime/cri/cri-client.ts';
import type { CriPull } from './cri-pull.ts';

/*
 * Forced pulls on a machine for tests, as kubelet makes them: PullImage over CRI, one after the
 * other. Prints a JSON array of `CriPull`.
 */

const { values, positionals } = parseArgs({
  options: { socket: { type: 'string' }, 'proto-root': { type: 'string' } },
  allowPositionals: true,
});
const { socket, 'proto-root': protoRoot } = values;
if (socket === undefined || protoRoot === undefined) {
  throw new Error('usage: cri-pull --socket SOCKET --proto-root FOLDER IMAGE...');
}
const cri = new CriClient({ socketPath: socket, protoRoot });

async function pull(image: string): Promise<CriPull> {
  const begunAt = performance.now();
  const failure = await cri.pullImage(image, new AbortController().signal).then(
    () => undefined,
    (error: unknown) => String(error),
  );
  return { image, elapsedMs: Math.round(performance.now() - begunAt), ...(failure !== undefined && { failure }) };
}

async function pullAll(): Promise<readonly CriPull[]> {
  const pulls: CriPull[] = [];
  for (const image of positionals) pulls.push(await pull(image));
  return pulls;
}

// A failure of the program ends the process with its stack and exit code 1.
void pullAll()
  .then((pulls) => process.stdout.write(`${JSON.stringify(pulls)}\n`))
  .finally(() => cri.close());
