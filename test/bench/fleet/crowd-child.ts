import { readFileSync } from 'node:fs';
import type { Digest } from '../../../src/domain/model/digest.ts';
import { parseEndpoint } from '../../../src/domain/settings/addresses.ts';
import { byKubelet, IdentityKeeper } from '../../../src/fleet/identity/identity.ts';
import { KnownPeer } from '../../../src/fleet/peers/peer.ts';
import { serveNodes } from '../../../src/fleet/serve/node-port.ts';
import { WarnOnce } from '../../../src/fleet/trouble.ts';
import { NEVER_ABORTED } from '../../../src/platform/async/abort.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { respondJson } from '../../../src/platform/http.ts';
import { silentLog } from '../../../src/platform/log.ts';

/** The word that starts this program as {@link runCrowdChild}. */
export const CROWD_CHILD = 'crowd-child';

/** Nodes in one process. */
export interface CrowdOrder {
  /** `10.77.0.1:9777`. */
  readonly giver: string;
  readonly members: readonly {
    readonly name: string;
    readonly listen: string;
    readonly kubeconfig: string;
    readonly clientCa: string;
  }[];
  /** What the first `takers` of them take, again and again. */
  readonly digests: readonly Digest[];
  readonly takers: number;
}

const PRELOADING = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'preloading', percent: 50 };

/**
 * Nodes that a real one sees as its peers: each proves who it is, offers nothing, waits for news of
 * the real one, and some take blobs from it. Says `ready`, then runs until it is ended.
 */
export async function runCrowdChild(orderFile: string): Promise<void> {
  const order = JSON.parse(readFileSync(orderFile, 'utf8')) as CrowdOrder;
  const members: KnownPeer[] = [];
  for (const member of order.members) members.push(await startMember(member, order.giver));
  process.stdout.write('ready\n');
  const work = members.map((member) => waitForNews(member));
  for (const member of members.slice(0, order.takers)) work.push(take(member, order.digests));
  await Promise.all(work);
}

/** @returns the giver as this member sees it */
async function startMember(
  { name, listen, kubeconfig, clientCa }: CrowdOrder['members'][number],
  giver: string,
): Promise<KnownPeer> {
  const settings = { kubeconfig, client_ca: clientCa };
  const keeper = new IdentityKeeper({ way: byKubelet(settings), clock: systemClock, log: silentLog });
  await keeper.refresh(NEVER_ABORTED);
  const ways = { identity: () => keeper.current(), clock: systemClock, onHeard: () => undefined };
  const node = { name, status: { version: 1, releases: [PRELOADING] } };
  await serveNodes({
    ...ways,
    endpoint: endpointOf(listen),
    warnings: new WarnOnce(silentLog, systemClock),
    answer: async (_node, _request, response) => respondJson(response, 200, { version: 1, bundles: [], node }),
  });
  return new KnownPeer({ endpoint: endpointOf(giver), names: [], isAnnounced: false, serves: [] }, ways, 0);
}

async function waitForNews({ client }: KnownPeer): Promise<never> {
  let etag: string | undefined;
  for (;;) {
    const news = await client.offers({ etag, waitMs: 30_000 }, NEVER_ABORTED).catch(() => undefined);
    etag = news?.etag ?? etag;
    await systemClock.sleep(500, NEVER_ABORTED);
  }
}

async function take({ client }: KnownPeer, digests: readonly Digest[]): Promise<never> {
  for (;;) {
    for (const digest of digests) {
      try {
        for await (const chunk of client.read(digest, 0, NEVER_ABORTED)) if (chunk.length === 0) break;
      } catch {
        await systemClock.sleep(100, NEVER_ABORTED);
      }
    }
  }
}

function endpointOf(text: string) {
  const endpoint = parseEndpoint(text, 0);
  if (endpoint === undefined) throw new Error(`${text} is no endpoint`);
  return endpoint;
}
