import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { SampleBundle } from '../../support/bundles/sample-bundle.ts';
import { startChild } from '../child.ts';
import { peakMiBOf, residentMiBOf } from '../process-cost.ts';
import type { RegistryTold } from './registry-child.ts';

const TRANSFERS = 64;
/** How long clients take nothing: the registry fills every buffer that there is meanwhile. */
const HELD_MS = 1_000;

/**
 * What 64 transfers of large blobs at once cost the registry in memory: of clients that take
 * nothing at first, and then all.
 */
export async function measureRegistryLoad({ path, contents }: SampleBundle): Promise<string[][]> {
  const largest = contents.layers.toSorted((a, b) => b.sizeBytes - a.sizeBytes).slice(0, 8);
  const registry = await startChild<RegistryTold>('registry-child', [path]);
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  try {
    const idleMiB = residentMiBOf(registry.pid);
    const responses = await Promise.all(
      Array.from({ length: TRANSFERS }, async (_none, at) => {
        const digest = largest[at % largest.length]?.digest;
        const [host, port] = registry.hello.authority.split(':');
        const asked = request({ host, port, path: `/v2/bench/blobs/${digest}`, agent }).end();
        const [response] = (await once(asked, 'response')) as [IncomingMessage];
        return response;
      }),
    );
    await delay(HELD_MS);
    const heldMiB = peakMiBOf(registry.pid) - idleMiB;
    await Promise.all(
      responses.map(async (response) => {
        for await (const _chunk of response);
      }),
    );
    const flowingMiB = peakMiBOf(registry.pid) - idleMiB;
    const measured = `${heldMiB.toFixed(0)} MiB held up, ${flowingMiB.toFixed(0)} MiB when all were sent (${idleMiB.toFixed(0)} MiB idle)`;
    return [[`memory for ${TRANSFERS} transfers at once`, 'under 100 MiB', measured]];
  } finally {
    await registry.stop();
    agent.destroy();
  }
}
