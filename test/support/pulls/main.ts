import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { GrpcClient } from '../../../src/runtime/cri/grpc-client.ts';
import { sampleImage } from '../bundles/sample-image.ts';
import { startSourceRegistry } from '../source-registry.ts';

/*
 * Has a runtime pull an image over CRI that it has never seen, by its tag, from a registry that
 * this program is. Prints the image's reference as the runtime answers.
 */

const options = { socket: { type: 'string' }, 'proto-root': { type: 'string' }, port: { type: 'string' } } as const;
const { socket, 'proto-root': protoRoot, port } = parseArgs({ options }).values;
if (socket === undefined || protoRoot === undefined || port === undefined) {
  throw new Error('usage: pulls --socket SOCKET --proto-root FOLDER --port PORT');
}
// A failure ends the process with its stack and exit code 1.
void pullNew(socket, protoRoot, Number(port));

async function pullNew(socketPath: string, protoRoot: string, port: number): Promise<void> {
  const registry = await startSourceRegistry({ port });
  const grpc = new GrpcClient({ socketPath, protoRoot, protoFile: 'api.proto' });
  try {
    registry.add('new/image', sampleImage({ seed: randomUUID() }), ['1']);
    const wanted = { image: { image: `${registry.host}/new/image:1` } };
    const signal = AbortSignal.timeout(480_000);
    const answer = await grpc.call('runtime.v1.ImageService', 'PullImage', wanted, { signal });
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  } finally {
    grpc.close();
    await registry.close();
  }
}
