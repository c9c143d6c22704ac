import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { watchFleetAt } from '../../../../src/app/fleet/watch-fleet.ts';
import type { FleetDocument } from '../../../../src/offers/documents.ts';
import { serveSocket } from '../../../../src/offers/server/socket-server.ts';
import { sendWatched } from '../../../../src/offers/watched-document.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { listen, notifyAll } from '../../../../src/platform/subscription.ts';

const VIEW: Omit<FleetDocument, 'version'> = { self: 'a', nodes: [], peers: [] };
const signal = () => AbortSignal.timeout(10_000);

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'fleet-'));
});
afterEach(() => rm(folder, { recursive: true }));

describe('what the fleet process tells the commands', () => {
  it('comes now and after each change', async () => {
    const listeners = new Set<() => void>();
    let self = 'worker-1';
    const document = {
      current: async () => ({ version: 1, ...VIEW, self }),
      onChange: (listener: () => void) => listen(listeners, listener),
    };
    const path = join(folder, 'peers.sock');
    const server = await serveSocket(path, (request, response) =>
      sendWatched(request, response, { document, clock: systemClock }),
    );
    const seen: string[] = [];
    for await (const view of watchFleetAt(path, signal())) {
      seen.push(view.self);
      if (seen.length === 2) break;
      self = 'worker-2';
      notifyAll(listeners);
    }
    expect(seen).toEqual(['worker-1', 'worker-2']);
    await server.close();
  });

  it('is an error with what to do when nothing answers', async () => {
    const views = watchFleetAt(join(folder, 'none.sock'), signal());
    await expect(views.next()).rejects.toMatchObject({
      code: 'fleet/unreachable',
      message: expect.stringContaining("see 'systemctl status stickpin-fleet.service'"),
    });
  });
});
