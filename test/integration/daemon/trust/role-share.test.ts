import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { installRole, type RoleFileOptions } from '../../../support/bundles/role-file.ts';
import { makeSampleBundle, type SampleBundleOptions, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { MIB } from '../../../support/daemon/scenario.ts';
import { mounting, mountSmallDisk } from '../../../support/files/small-disk.ts';
import { atEnd, folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const customer = sampleKey('customer');
const platform = sampleKey('factory-2026');
const APP = 'registry.example.com/cust/app';

const dir = folderForEach();
let node: DaemonHarness;

const image = (seed: string, sizeBytes: number) => sampleImage({ seed, layers: [sampleLayer({ seed, sizeBytes })] });
const make = async (name: string, over: Partial<SampleBundleOptions>) =>
  (await makeSampleBundle({ dir: join(dir, name), images: [], ...over })).path;
/** Its one image takes about 8 MiB. */
const release = (at: number, over: Partial<SampleBundleOptions> = {}) =>
  make(`${at}`, {
    name: 'customer-app',
    version: `${at}.0.0`,
    sequence: at,
    keys: [customer],
    images: [{ reference: `${APP}:${at}`, image: image(`app ${at}`, 8 * MIB) }],
    ...over,
  });
const isAt = (at: number) => (report: StatusReport) =>
  report.bundles.some(({ version, phase }) => version === `${at}.0.0` && phase === 'activated');
const setRole = (role: RoleFileOptions) => installRole(node.keysFolder, 'customer', { keys: [customer], ...role });

/** Each is activated as it comes, and none is ever proven, since nothing runs. */
async function loadReleases(count: number): Promise<void> {
  for (let at = 1; at <= count; at += 1) {
    node.plug(await release(at));
    await node.until(isAt(at));
    await node.takeOut();
  }
}

describe('the share of a role', () => {
  beforeEach(async () => {
    node = await createDaemonHarness({ keys: [platform] });
  });

  it('holds the release that does not fit in it, until the role may have more', async () => {
    setRole({ maxBytes: 20 * MIB });
    await node.start();
    await loadReleases(2);
    node.plug(await release(3));
    const held = await node.until(({ bundles }) => bundles.some(({ hold }) => hold === 'space'));
    const reason = held.bundles.find(({ hold }) => hold === 'space')?.reason;
    expect(reason?.code).toBe('engine/over-share');
    expect(reason?.message).toMatch(
      /^No room for customer-app 3\.0\.0 in the share of role customer: needs 8 MiB, the role has 16 MiB of 20 MiB\. .*max_bytes in customer\.toml/,
    );
    await node.until(() => node.statuses.at(-1)?.startsWith('CALL SUPPORT (D-08): No room for customer-app') === true);
    expect(await node.images()).toHaveLength(2);
    setRole({ maxBytes: 30 * MIB });
    await node.until(isAt(3));
  });

  it('does not last for life unless the role allows it, and then also when it no longer does', async () => {
    setRole({});
    await node.start(await release(1, { keep: 'life' }));
    const { rejected } = await node.until((report) => report.rejected.length > 0);
    expect(rejected[0]?.reason.code).toBe('bundle/outside-role');
    expect(rejected[0]?.reason.message).toContain(
      'role customer may not keep a release for life: make it without --keep life, or set may_keep_for_life = true in customer.toml',
    );
    setRole({ mayKeepForLife: true });
    const report = await node.until(isAt(1));
    expect(report.protected.map(({ name }) => name)).toEqual(['customer-app']);
    setRole({});
    const later = await node.until(({ trust }) => trust.roles?.[0]?.mayKeepForLife === false);
    expect([later.bundles[0]?.reason, later.protected.length]).toEqual([undefined, 1]);
  });
});

describe.runIf(have('root', 'mmdebstrap', mounting))('a disk that releases of a role have filled', () => {
  it('has room for the platform, without a person: all but what the role needs gives way', async () => {
    const disk = mountSmallDisk('tmpfs', 64 * MIB);
    atEnd(() => disk.dispose());
    const crio = await createCrioNode({}, {}, { keys: [platform] });
    node = crio.harness;
    const { graphRoot } = crio.double().dirs;
    execFileSync('mkdir', ['-p', graphRoot]);
    execFileSync('mount', ['--bind', disk.path, graphRoot]);
    atEnd(() => void execFileSync('umount', ['--lazy', graphRoot]));
    setRole({});
    await node.start();
    await loadReleases(5);
    const images = [{ reference: 'quay.example.com/coreos/etcd:9', image: image('etcd', 36 * MIB) }];
    node.plug(await make('ocp', { keys: [platform], images }));
    const { bundles } = await node.until(({ bundles: all }) =>
      all.some(({ name, phase }) => name === 'ocp' && phase === 'activated'),
    );
    const kept = bundles.filter(({ name, phase }) => name === 'customer-app' && phase !== 'retired');
    expect(kept.map(({ version }) => version)).toEqual(['3.0.0', '4.0.0', '5.0.0']);
    expect(node.history('roomMade').map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/customer-app 1\.0\.0 .* early, to make room for ocp 4\.13\.7/),
    );
  }, 180_000);
});
