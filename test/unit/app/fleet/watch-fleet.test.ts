import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { commandAdapters } from '../../../../src/app/command-line/command-adapters.ts';
import { watchFleetAt } from '../../../../src/app/fleet/watch-fleet.ts';
import type { FleetDocument } from '../../../../src/fleet/wire/documents.ts';
import { sendWatched, serveSocket } from '../../../../src/fleet/wire/server.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { listen, notifyAll } from '../../../../src/platform/subscription.ts';
import { runCommand } from '../../../support/run-command.ts';

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

  it('has no control characters when people see it, whichever node wrote them', async () => {
    const evil = (text: string) => `${text}\u001b[31m\u009b2J\u202e\u200b\r\nx`;
    const release = { name: evil('ocp'), version: evil('4.13.7'), bundle: '0123456789abcdef', phase: 'held' };
    const status = { version: 1, arch: evil('amd64'), releases: [{ ...release, reason: evil('bundle/x') }] };
    const offered = { ...release, bundleId: `sha256:${'0'.repeat(64)}`, sequence: 1, isWhole: true, revision: 'a' };
    const peer = { name: evil('n2'), address: evil('10.0.0.2:1'), trouble: evil('gone'), bundles: [offered] };
    const nodes = [{ name: evil('n2'), isAbsent: false, status: { ...status, wants: [release] } }];
    const told = { version: 1, self: evil('n1'), nodes, peers: [peer], apiTrouble: evil('403') };
    const document = { current: async () => told, onChange: () => () => undefined };
    const path = join(folder, 'peers.sock');
    const server = await serveSocket(path, (request, response) =>
      sendWatched(request, response, { document, clock: systemClock }),
    );
    const adapters = { ...commandAdapters, watchFleet: (until: AbortSignal) => watchFleetAt(path, until) };
    for (const args of [['status'], ['status', '--json'], ['wait', 'ocp@9', '--timeout', '0']]) {
      const { stdout, stderr } = await runCommand(['fleet', ...args], { adapters });
      const printed = `${stdout}${stderr}`;
      expect(printed).toContain('n2 [31m 2J x');
      expect(printed.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      // Nothing that another node wrote begins a line.
      expect(printed).not.toMatch(/^x/m);
    }
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
