import { describe, expect, it } from 'vitest';
import type { FleetNode, FleetView } from '../../../../src/domain/fleet/node-status.ts';
import { wantedReleases } from '../../../../src/domain/fleet/turn.ts';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import { wantedReleaseText } from '../../../../src/domain/report/texts/short-texts.ts';
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

describe('wantedReleases', () => {
  it('names the release of other nodes that nobody offers, and any node will do', () => {
    const [wanted] = wantedReleases(view([node('worker-1'), node('worker-2'), node('worker-3')]), [known('4.13.6')]);
    expect(wanted).toEqual({ name: 'ocp', version: '4.13.7', nodes: ['worker-2', 'worker-3'] });
    expect(wanted && wantedReleaseText(wanted)).toBe(
      'ocp 4.13.7 is loaded on worker-2 and 1 other node, and no node can give it: plug its stick into any node.',
    );
  });

  it('names the newest one', () => {
    const nodes = [node('worker-2', '4.13.10'), node('worker-3', '4.13.9')];
    expect(wantedReleases(view(nodes), [])).toEqual([{ name: 'ocp', version: '4.13.10', nodes: ['worker-2'] }]);
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
