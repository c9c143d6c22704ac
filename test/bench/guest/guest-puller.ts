import { CriClient } from '../../../src/runtime/cri/cri-client.ts';

/*
 * Runs in the guest: has the runtime pull images one after the other, as a person with crictl
 * would, and prints how many milliseconds that took.
 */

const [socketPath, protoRoot, ...references] = process.argv.slice(2);
if (socketPath === undefined || protoRoot === undefined)
  throw new Error('usage: puller SOCKET PROTO_ROOT REFERENCE...');

async function pullAll(cri: CriClient): Promise<void> {
  const startedAt = performance.now();
  for (const reference of references) await cri.pullImage(reference, new AbortController().signal);
  process.stdout.write(`${performance.now() - startedAt}\n`);
}

const cri = new CriClient({ socketPath, protoRoot });
// A failure ends the process with its stack and exit code 1.
void pullAll(cri).finally(() => cri.close());
