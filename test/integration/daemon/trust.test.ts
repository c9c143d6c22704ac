import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BundleReport, StatusReport } from '../../../src/domain/report.ts';
import { createDaemonHarness, type DaemonHarness, type HarnessOptions } from '../../support/daemon-harness.ts';
import { installKeys, makeSampleBundle, sampleKey } from '../../support/sample-bundle.ts';
import { makeNotice, signAnew } from '../../support/signed-payload.ts';

let node: DaemonHarness;
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'stickpin-made-'));
});
afterEach(async () => {
  await node.dispose();
  rmSync(dir, { recursive: true, force: true });
});

async function start(options: HarnessOptions = {}): Promise<void> {
  node = await createDaemonHarness(options);
  await node.start();
}
const bundleIn = (report: StatusReport, version = '4.13.7'): BundleReport | undefined =>
  report.bundles.find((one) => one.version === version);
const isActivated = (report: StatusReport) => bundleIn(report)?.phase === 'activated';
const isHeld = ({ bundles }: StatusReport) => bundles.some((one) => one.hold === 'approval');
const verdicts = () => node.daemon().engine.verdicts;
const revoke = (keyId: string) => writeFileSync(join(node.keysFolder, `${keyId.slice(0, 8)}.revoked`), `${keyId}\n`);

describe('trust.require = "both"', () => {
  it('holds a signed bundle until its digest is approved, and remembers that', async () => {
    await start({ settings: { trust: { require: 'both' } } });
    const bundle = await makeSampleBundle({ dir, keys: [node.key] });
    node.plug(bundle.path);
    const held = await node.until(isHeld);
    expect(bundleIn(held)).toMatchObject({ phase: 'held', hold: 'approval', images: { present: 0 } });
    expect(held.status).toContain(`stickpin approve ${bundle.bundleId}`);
    expect(await node.images()).toEqual([]);
    expect(verdicts().approve('ocp@4.13.7')).toContain('is approved');
    await node.until(isActivated);
    await node.stop();
    await node.start();
    await node.until(isActivated);
    expect(
      node
        .daemon()
        .engine.history(undefined, 100)
        .map(({ kind }) => kind),
    ).toContain('bundleApproved');
  });

  it('takes an approval ahead of the stick, and refuses a stranger all the same', async () => {
    await start({ settings: { trust: { require: 'both' } } });
    const bundle = await makeSampleBundle({ dir, keys: [sampleKey('stranger')] });
    verdicts().approve(bundle.bundleId);
    node.plug(bundle.path);
    const { rejected } = await node.until((report) => report.rejected.length > 0);
    expect(rejected).toMatchObject([{ reason: { code: 'bundle/unknown-key' } }]);
    node.unplug();
    signAnew(bundle.path, [node.key]);
    node.plug(bundle.path);
    await node.until(isActivated);
  });
});

describe('trust.require = "approval"', () => {
  it('takes a bundle that nobody trusted signed, once its digest is approved', async () => {
    await start({ settings: { trust: { require: 'approval' } }, keys: [] });
    const bundle = await makeSampleBundle({ dir, keys: [] });
    node.plug(bundle.path);
    const held = await node.until(isHeld);
    expect(held.bundles).toMatchObject([{ bundleId: bundle.bundleId, name: '', phase: 'held', hold: 'approval' }]);
    verdicts().approve(bundle.bundleId);
    expect(bundleIn(await node.until(isActivated))).toMatchObject({ signedBy: [], bundleId: bundle.bundleId });
  });

  it('takes what the configuration approves, unless a person rejected it', async () => {
    const bundle = await makeSampleBundle({ dir, keys: [] });
    await start({ settings: { trust: { require: 'approval', approved: [bundle.bundleId] } } });
    verdicts().reject(bundle.bundleId);
    node.plug(bundle.path);
    const { rejected } = await node.until((report) => report.rejected.length > 0);
    expect(rejected).toMatchObject([{ reason: { code: 'trust/rejected' } }]);
    verdicts().approve(bundle.bundleId);
    await node.until(isActivated);
  });
});

describe('a revoked key', () => {
  it('takes the trust from an adopted bundle at once, and a new signature gives it back', async () => {
    const next = sampleKey('factory-2027');
    await start();
    const bundle = await makeSampleBundle({ dir, keys: [node.key] });
    node.plug(bundle.path);
    const before = await node.until(isActivated);
    revoke(node.key.privateKey.keyId);
    const report = await node.until((one) => bundleIn(one)?.reason?.code === 'trust/key-revoked');
    expect(bundleIn(report)).toMatchObject({ phase: 'activated', images: bundleIn(before)?.images });
    expect((await node.images()).every((image) => image.pinned)).toBe(true);
    await node.until(({ rejected }) => rejected[0]?.reason.code === 'bundle/no-key');
    node.unplug();
    installKeys(node.keysFolder, [next]);
    signAnew(bundle.path, [next]);
    node.plug(bundle.path);
    const mended = await node.until((one) => bundleIn(one) !== undefined && bundleIn(one)?.reason === undefined);
    expect(bundleIn(mended)?.signedBy).toEqual(['factory-2026', 'factory-2027']);
  });

  it('is not what a key is that was taken away: the bundle stays a source of blobs', async () => {
    await start();
    const bundle = await makeSampleBundle({ dir, keys: [node.key] });
    node.plug(bundle.path);
    await node.until(isActivated);
    rmSync(join(node.keysFolder, 'factory-2026.pub'));
    await node.until(() => node.log.lines.some(({ message }) => message.startsWith('No key is trusted')));
    node.unplug();
    await node.until(({ media }) => media.every(({ bundles }) => bundles === 0));
    node.plugAgain();
    const report = await node.until(({ media }) => media.some(({ bundles }) => bundles === 1));
    expect(report.rejected).toEqual([]);
    expect(bundleIn(report)?.reason).toBeUndefined();
  });
});

describe('key rotation', () => {
  it('comes with a notice, takes effect at once and outlives a restart', async () => {
    const next = sampleKey('factory-2027');
    await start();
    const notice = makeNotice(dir, { trust: { keys: [next.publicPem], revoked: [] } }, [node.key]);
    const release = await makeSampleBundle({ dir, keys: [next] });
    node.plug(notice.path, release.path);
    const report = await node.until(isActivated);
    expect(report.bundles.map(({ version }) => version)).toEqual(['4.13.7']);
    const { keyId } = next.privateKey;
    const brought = { name: keyId.slice(0, 12), keyId, broughtBy: 'ocp@2026.1.1' };
    expect(report.trust).toMatchObject({ require: 'signature', threshold: 1, revoked: [] });
    expect(report.trust.keys).toContainEqual(brought);
    expect(report.trust.keys).toContainEqual({ name: 'factory-2026', keyId: node.key.privateKey.keyId });
    await node.stop();
    node.unplug();
    await node.start();
    const later = await makeSampleBundle({ dir, version: '4.13.8', sequence: 101, keys: [next] });
    node.plug(later.path);
    await node.until((one) => bundleIn(one, '4.13.8')?.phase === 'activated');
  });

  it('revokes for good: neither a later bundle nor the .pub brings the key back', async () => {
    const [old, next] = [sampleKey('factory-2025'), sampleKey('factory-2027')];
    node = await createDaemonHarness({ keys: [old, next] });
    await node.start();
    const { keyId } = old.privateKey;
    const first = makeNotice(dir, { trust: { revoked: [keyId] } }, [next]);
    const second = makeNotice(dir, { version: '2026.1.2', sequence: 101, trust: { keys: [old.publicPem] } }, [next]);
    const release = await makeSampleBundle({ dir, keys: [old] });
    node.plug(first.path, second.path);
    const history = () => node.daemon().engine.history(undefined, 100);
    await node.until(() => history().filter(({ kind }) => kind === 'keysRotated').length === 2);
    node.unplug();
    node.plug(release.path);
    const { rejected, bundles } = await node.until((one) => one.rejected[0]?.reason.code === 'bundle/revoked-key');
    expect(rejected).toHaveLength(1);
    expect(bundles).toEqual([]);
    expect(node.report().trust.revoked).toEqual([{ keyId, revokedBy: 'ocp@2026.1.1' }]);
  });

  it('is not what an approval alone does', async () => {
    const next = sampleKey('factory-2027');
    const notice = makeNotice(dir, { trust: { keys: [next.publicPem] } }, []);
    const release = await makeSampleBundle({ dir, keys: [next] });
    await start({ settings: { trust: { require: 'approval', approved: [notice.bundleId] } } });
    node.plug(notice.path, release.path);
    await node.until(() =>
      node
        .daemon()
        .engine.history(undefined, 100)
        .some(({ kind }) => kind === 'keysNotRotated'),
    );
    const report = await node.until(isHeld);
    expect(report.bundles).toMatchObject([{ bundleId: release.bundleId, hold: 'approval', signedBy: [] }]);
  });
});
