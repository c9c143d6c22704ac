import { describe, expect, it } from 'vitest';
import { checkFleet } from '../../../src/doctor/check-fleet.ts';
import type { FleetView } from '../../../src/domain/fleet/node-status.ts';
import type { Settings } from '../../../src/domain/settings/settings.ts';
import { findingsOf } from '../../support/examined-node.ts';

const DAY = 24 * 3_600_000;
const VIEW: FleetView = {
  self: 'worker-1',
  nodes: [
    { name: 'worker-1', isAbsent: false },
    { name: 'worker-2', isAbsent: false },
  ],
  peers: [{ name: 'worker-2', address: '10.0.0.5:9777', bundles: [] }],
};

interface Given {
  readonly settings?: Partial<Settings['fleet']>;
  readonly unit?: string;
  readonly view?: () => FleetView;
  readonly identity?: () => { node: string; validUntil: number; now: number };
}

const look = async (given: Given) => (await find(given)).map(({ verdict, message }) => `${verdict}: ${message}`);

function find({ settings, unit = 'active', view = () => VIEW, identity }: Given) {
  return findingsOf(checkFleet, {
    settings: { fleet: { enabled: true, ...settings } },
    services: { unitProperty: async () => unit, isClockSynchronized: async () => true },
    fleet: {
      view: async () => view(),
      identity: async () => (identity ?? (() => ({ node: 'worker-1', validUntil: 90 * DAY, now: 0 })))(),
    },
  });
}

const throwing = (message: string) => () => {
  throw new Error(message);
};

describe('the check of the fleet', () => {
  it('finds nothing wrong where all is well', async () => {
    expect(await look({})).toEqual([
      'ok: stickpin-fleet.service runs',
      'ok: this node is worker-1, and knows 1 other node',
      'ok: its certificate is that of node worker-1',
    ]);
  });

  it('requests no Kubernetes API, and no certificate of a kubelet, with keys', async () => {
    const identity = () => ({ node: 'worker-1', validUntil: Number.POSITIVE_INFINITY, now: 0 });
    const view = () => ({ ...VIEW, apiTrouble: 'It is not used.' });
    expect(await look({ settings: { auth: 'keys' }, view, identity })).toEqual([
      'ok: stickpin-fleet.service runs',
      'ok: this node is worker-1, and knows 1 other node',
      'ok: its key is listed as worker-1',
    ]);
    const trouble = 'this node and 10.0.0.5:9777 are both worker-1';
    const alone = { ...view(), nodes: VIEW.nodes.slice(0, 1), keys: { isRead: true, trouble } };
    const silent = { ...view(), nodes: VIEW.nodes.map((node) => ({ ...node, isAbsent: true })) };
    for (const shown of [alone, silent]) {
      const found = JSON.stringify(await find({ settings: { auth: 'keys' }, view: () => shown, identity }));
      expect(found).not.toMatch(/[Kk]ube|\bNode\b/);
      expect(found).toContain('fleet.keys_file, on all nodes');
    }
    expect(await look({ settings: { auth: 'keys' }, view: () => alone, identity })).toContain(`fault: ${trouble}`);
  });

  it('is silent where the fleet is off, and warns of a unit that runs all the same', async () => {
    expect(await look({ settings: { enabled: false }, unit: 'inactive' })).toEqual([]);
    expect(await look({ settings: { enabled: false } })).toEqual([
      'warning: stickpin-fleet.service runs, and fleet.enabled is false',
    ]);
  });

  it.each<[string, Given, string]>([
    [
      'a unit that does not run',
      { unit: 'failed' },
      'fault: fleet.enabled is true, and stickpin-fleet.service is failed',
    ],
    [
      'a process that does not answer',
      { view: throwing('no answer') },
      'fault: nothing is known of other nodes: no answer',
    ],
    [
      'a node alone',
      { view: () => ({ ...VIEW, nodes: VIEW.nodes.slice(0, 1), peers: [] }) },
      'warning: this node is worker-1, and no other',
    ],
    [
      'the API',
      { view: () => ({ ...VIEW, apiTrouble: 'may not list nodes' }) },
      'warning: the Kubernetes API: may not list nodes',
    ],
    [
      'a peer out of reach',
      { view: () => ({ ...VIEW, peers: [{ name: 'worker-2', address: 'a', bundles: [], trouble: 'refused' }] }) },
      "warning: worker-2 can't be asked: refused",
    ],
    [
      'a silent node',
      { view: () => ({ ...VIEW, nodes: VIEW.nodes.map((node) => ({ ...node, isAbsent: node.name === 'worker-2' })) }) },
      'warning: worker-2 has been silent',
    ],
    ['no authentication', { settings: { auth: 'none' } }, 'warning: fleet.auth is "none"'],
    ['a certificate that can not be read', { identity: throwing('no certificate') }, 'fault: no certificate'],
    [
      'a certificate that ran out',
      { identity: () => ({ node: 'n', validUntil: 0, now: DAY }) },
      "fault: the validity of the kubelet's client certificate (node n) has ended",
    ],
    [
      'a certificate that runs out',
      { identity: () => ({ node: 'n', validUntil: DAY, now: 0 }) },
      "warning: the validity of the kubelet's client certificate (node n) ends in 24 h",
    ],
  ])('tells of %s', async (_what, given, line) => {
    expect((await look(given)).find((one) => one.startsWith(line))).toBeDefined();
  });
});
