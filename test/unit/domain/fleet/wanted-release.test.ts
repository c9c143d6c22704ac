import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FleetNode, FleetView } from '../../../../src/domain/fleet/node-status.ts';
import { wantedReleases } from '../../../../src/domain/fleet/turn.ts';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import { wantedReleaseText } from '../../../../src/domain/report/reasons/node-lines.ts';
import { digestOf } from '../../../../src/platform/digest.ts';

const bundleId = digestOf('ocp 4.13.7');
const node = (name: string, version = '4.13.7', current = true): FleetNode => ({
  name,
  isAbsent: false,
  status: {
    version: 1,
    releases: [
      { name: 'ocp', version, bundle: hexOf(digestOf(`ocp ${version}`)).slice(0, 16), phase: 'proven', current },
    ],
  },
});
const view = (nodes: readonly FleetNode[]): FleetView => ({ self: 'worker-1', nodes, peers: [] });
const known = (version: string) => ({ bundleId: digestOf(`ocp ${version}`), payload: { name: 'ocp', version } });

describe('a node that offers a release and can not be reached', () => {
  const trouble = '10.0.0.1:9777 did not answer within 10000 ms';
  const peer = { name: 'worker-2', address: '10.0.0.2:9777', trouble, unreached: [bundleId], bundles: [] };
  const offered = { bundleId, name: 'ocp', version: '4.13.7', sequence: 7, isWhole: true, revision: 'r' };
  /** This node, as it reports itself. */
  const self = (reason: string, percent?: number): FleetNode => {
    const bundle = hexOf(bundleId).slice(0, 16);
    const held = {
      name: 'ocp',
      version: '4.13.7',
      bundle,
      phase: 'held',
      reason,
      ...(percent && { percent }),
    } as const;
    return { name: 'worker-1', isAbsent: false, status: { version: 1, releases: [held] } };
  };
  const giver = node('worker-2', '4.13.7', false);

  it('is named, with the release, what lacks, and what to do', () => {
    const [wanted] = wantedReleases({ ...view([giver]), peers: [peer] }, [known('4.13.6')]);
    expect(wanted).toMatchObject({ name: 'ocp', version: '4.13.7', nodes: ['worker-2'] });
    expect(wanted && wantedReleaseText(wanted)).toBe(
      "ocp 4.13.7 is on worker-2, which this node can't reach, and nothing of it is loaded: open TCP port 9777 between the nodes, or plug its stick into any node. 10.0.0.1:9777 did not answer within 10000 ms.",
    );
  });

  it('is named for a release that is known and waits for it, and for no other one', () => {
    const wantedBy = (own: FleetNode, peers: FleetView['peers'] = [peer]) =>
      wantedReleases({ ...view([own, giver]), peers }, [known('4.13.7')]).map((one) => one.unreached?.percent);
    expect(wantedBy(self('engine/no-source', 40))).toEqual([40]);
    expect(wantedBy(self('engine/no-space'))).toEqual([]);
    expect(wantedBy(self('engine/cancelled'))).toEqual([]);
    const reached = { name: 'worker-3', address: '10.0.0.3:9777', bundles: [offered] };
    expect(wantedBy(self('engine/no-source'), [peer, reached])).toEqual([]);
    expect(wantedBy(self('engine/no-source'), [{ ...peer, unreached: [] }])).toEqual([]);
  });
});

describe('wantedReleases', () => {
  it('names the release of other nodes that nobody offers, and any node will do', () => {
    const [wanted] = wantedReleases(view([node('worker-1'), node('worker-2'), node('worker-3')]), [known('4.13.6')]);
    expect(wanted).toEqual({ name: 'ocp', version: '4.13.7', nodes: ['worker-2', 'worker-3'] });
    expect(wanted && wantedReleaseText(wanted)).toBe(
      'ocp 4.13.7 is loaded on worker-2 and 1 other node, and no node can give it: plug its stick into any node.',
    );
  });

  it('names the newest one', () => {
    const nodes = ['4.13.10', '4.13.9'].flatMap((version) => [2, 3].map((at) => node(`worker-${at}`, version)));
    const wanted = { name: 'ocp', version: '4.13.10', nodes: ['worker-2', 'worker-3'] };
    expect(wantedReleases(view(nodes), [])).toEqual([wanted]);
  });

  it('believes no single node, unless it is the only other one', () => {
    const honest = [node('worker-2'), node('worker-3')];
    const liar = node('worker-4', '99.0.0');
    const wanted = { name: 'ocp', version: '4.13.7', nodes: ['worker-2', 'worker-3'] };
    expect(wantedReleases(view([liar, ...honest]), [])).toEqual([wanted]);
    expect(wantedReleases(view([liar, ...honest]), [known('4.13.7')])).toEqual([]);
    expect(wantedReleases(view([liar]), [])).toMatchObject([{ version: '99.0.0', nodes: ['worker-4'] }]);
  });

  it('counts a node once, and only claims of the same bundle together', () => {
    const claim = (name: string, bundle: string): FleetNode => {
      const release = {
        name: 'ocp',
        version: '99.0.0',
        bundle: bundle.repeat(16),
        phase: 'proven',
        current: true,
      } as const;
      return { name, isAbsent: false, status: { version: 1, releases: [release, release] } };
    };
    expect(wantedReleases(view([claim('worker-2', 'a'), claim('worker-3', 'b')]), [])).toEqual([]);
    expect(wantedReleases(view([claim('worker-2', 'a'), node('worker-3', '4.13.7')]), [])).toEqual([]);
    const [wanted] = wantedReleases(view([claim('worker-2', 'a'), claim('worker-3', 'a')]), []);
    expect(wanted?.nodes).toEqual(['worker-2', 'worker-3']);
  });

  it('never names what fewer than two nodes claim, whatever the others report', () => {
    const statuses = fc.array(
      fc.record({ version: fc.constantFrom('4.13.7', '4.13.8', '99.0.0'), current: fc.boolean() }),
      { minLength: 2, maxLength: 8 },
    );
    fc.assert(
      fc.property(statuses, (all) => {
        const nodes = all.map(({ version, current }, at) => node(`worker-${at + 2}`, version, current));
        for (const { version, nodes: named } of wantedReleases(view(nodes), [])) {
          expect(named.length).toBeGreaterThanOrEqual(2);
          expect(all.filter((one) => one.version === version && one.current)).toHaveLength(named.length);
        }
      }),
    );
  });

  it('wants nothing that is known, older, offered, or not the current one', () => {
    expect(wantedReleases(undefined, [])).toEqual([]);
    expect(wantedReleases(view([node('worker-2')]), [known('4.13.7')])).toEqual([]);
    expect(wantedReleases(view([node('worker-2')]), [known('4.13.8')])).toEqual([]);
    expect(wantedReleases(view([node('worker-2', '4.13.7', false)]), [])).toEqual([]);
    const arm = node('worker-2');
    const x86 = { name: 'worker-1', isAbsent: false, status: { version: 1, arch: 'amd64', releases: [] } } as const;
    const foreign = { ...arm, status: { version: 1, releases: [], ...arm.status, arch: 'arm64' } } as const;
    expect(wantedReleases(view([x86, foreign]), [])).toEqual([]);
    const bundles = [{ bundleId, name: 'ocp', version: '4.13.7', sequence: 7, isWhole: true, revision: 'r' }];
    const peers = [{ name: 'worker-3', address: '10.0.0.3:9777', bundles }];
    expect(wantedReleases({ ...view([node('worker-2')]), peers }, [])).toEqual([]);
  });
});
