import { createHash, createPublicKey } from 'node:crypto';
import { chmodSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DaemonBackend } from '../../../../src/app/daemon/api-backend.ts';
import { renderList } from '../../../../src/cli/output/render/render-status.ts';
import type { BundleReport, StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { otherForm } from '../../../support/bundles/key-forms.ts';
import { installKeys, makeSampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { makeNotice, signAnew } from '../../../support/bundles/signed-payload.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type HarnessOptions,
} from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { loseMirror } from '../../../support/state/lose-state.ts';

let node: DaemonHarness;
const dir = folderForEach();

async function start(options: HarnessOptions = {}): Promise<void> {
  node = await createDaemonHarness(options);
  await node.start();
}
const bundleIn = (report: StatusReport, version = '4.13.7'): BundleReport | undefined =>
  report.bundles.find((one) => one.version === version);
const isActivated = (report: StatusReport) => bundleIn(report)?.phase === 'activated';
const isHeld = ({ bundles }: StatusReport) => bundles.some((one) => one.hold === 'approval');
const engine = () => node.engine;
const revoke = (keyId: string) =>
  writeFileSync(join(node.keysFolder, `${keyId.slice(0, 8)}.revoked`), `${keyId}\n`, { mode: 0o644 });

describe('trust.require = "both"', () => {
  it('holds a signed bundle until its digest is approved, and remembers that', async () => {
    await start({ settings: { trust: { require: 'both' } } });
    const bundle = await node.make();
    node.plug(bundle.path);
    const held = await node.until(isHeld);
    expect(bundleIn(held)).toMatchObject({ phase: 'held', hold: 'approval', images: { present: 0 } });
    expect(held.status).toContain(
      `Compare its digest ${bundle.bundleId.slice(0, 19)}…, then 'stickpin approve ocp@4.13.7'`,
    );
    expect(await node.images()).toEqual([]);
    expect(node.log.kinds().filter((kind) => kind === 'approvalAwaited')).toHaveLength(1);
    const { methods } = new DaemonBackend(() => node.daemon());
    const call = { signal: AbortSignal.timeout(10_000), uid: 1000 };
    expect(await methods.approve({ bundle: 'ocp@4.13.7' }, call)).toContain('is approved');
    await node.until(isActivated);
    await node.restart();
    await node.until(isActivated);
    expect(node.history().map(({ kind }) => kind)).toEqual(expect.arrayContaining(['bundleApproved', 'commandAsked']));
  });

  it('accepts an approval before the stick, and still refuses an unknown bundle', async () => {
    await start({ settings: { trust: { require: 'both' } } });
    const bundle = await makeSampleBundle({ dir, keys: [sampleKey('stranger')] });
    engine().commands.approve({ bundle: bundle.bundleId });
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
  it('adopts a bundle without a trusted signature once its digest is approved', async () => {
    await start({ settings: { trust: { require: 'approval' } }, keys: [] });
    const bundle = await makeSampleBundle({ dir, keys: [] });
    node.plug(bundle.path);
    const held = await node.until(isHeld);
    expect(held.bundles).toMatchObject([{ bundleId: bundle.bundleId, name: '', phase: 'held', hold: 'approval' }]);
    engine().commands.approve({ bundle: bundle.bundleId });
    expect(bundleIn(await node.until(isActivated))).toMatchObject({ signedBy: [], bundleId: bundle.bundleId });
  });

  it('adopts a bundle that the settings approve, unless a person rejected it', async () => {
    const bundle = await makeSampleBundle({ dir, keys: [] });
    await start({ settings: { trust: { require: 'approval', approved: [bundle.bundleId] } } });
    engine().commands.reject({ bundle: bundle.bundleId });
    node.plug(bundle.path);
    const { rejected } = await node.until((report) => report.rejected.length > 0);
    expect(rejected).toMatchObject([{ reason: { code: 'trust/rejected' } }]);
    engine().commands.approve({ bundle: bundle.bundleId });
    await node.until(isActivated);
  });
});

describe('a name that is rejected ahead of its stick', () => {
  it('is shown, survives a restart, refuses the bundle when it arrives, and is undone by approve', async () => {
    await start();
    expect(engine().commands.reject({ bundle: 'ocp@4.13.7', reason: 'loses data' })).toBe(
      "ocp 4.13.7 is rejected (loses data): a bundle of this name is not adopted; 'stickpin approve ocp@4.13.7' takes that back.",
    );
    const ahead = await node.until((report) => report.rejectedNames.length > 0);
    expect(renderList(ahead)).toContain(
      'ocp@4.13.7 was rejected on this node, also for sticks that come later. Reason: loses data.',
    );
    await node.restart();
    const bundle = await node.make();
    node.plug(bundle.path);
    const { rejected, bundles } = await node.until((report) => report.rejected.length > 0);
    expect(rejected).toMatchObject([{ name: 'ocp@4.13.7', reason: { code: 'trust/rejected' } }]);
    expect(rejected[0]?.reason.message).toContain('Reason: loses data.');
    expect(bundles).toEqual([]);
    engine().commands.approve({ bundle: 'ocp@4.13.7' });
    const done = await node.until(isActivated);
    expect(done.rejectedNames).toEqual([]);
    const kinds = engine()
      .history(undefined, 100)
      .map(({ kind }) => kind);
    expect(kinds).toEqual(expect.arrayContaining(['bundleVetoed', 'bundleApproved']));
  });

  it('is undone without a stick, and a later approval of the digest counts more', async () => {
    await start();
    engine().commands.reject({ bundle: 'ocp@4.13.7' });
    expect(engine().commands.approve({ bundle: 'ocp@4.13.7' })).toContain('The rejection of ocp 4.13.7 is taken back');
    expect(() => engine().commands.approve({ bundle: 'ocp@4.13.7' })).toThrow(
      'no bundle ocp@4.13.7 is known or plugged in',
    );
    engine().commands.reject({ bundle: 'ocp@4.13.7' });
    const bundle = await node.make();
    engine().commands.approve({ bundle: bundle.bundleId });
    node.plug(bundle.path);
    await node.until(isActivated);
  });

  it('counts for the present bundle and for one that is created again, until it is undone', async () => {
    await start();
    const [one, other] = [await node.make(), await node.make({ dir: join(dir, 'b'), sequence: 2 })];
    node.plug(one.path);
    await node.until(isActivated);
    node.unplug();
    expect(engine().commands.reject({ bundle: 'ocp@4.13.7' })).toContain('no other bundle of this name is adopted');
    await node.until(({ bundles }) => bundles[0]?.reason?.code === 'trust/rejected');
    node.plug(other.path);
    const { rejected } = await node.until((report) => report.rejected.length > 0);
    expect(rejected).toMatchObject([{ name: 'ocp@4.13.7', reason: { code: 'trust/rejected' } }]);
    expect(engine().commands.approve({ bundle: 'ocp@4.13.7' })).toContain('The rejection of ocp 4.13.7 is taken back');
    await node.until(({ bundles }) => bundles.some(({ bundleId, reason }) => bundleId === one.bundleId && !reason));
  });

  it.each(['ocp', 'ocp@', '@1.0.0', 'Ocp@1.0.0', 'ocp@4.13.7@1', 'ocp@latest!', ''])(
    'refuses %j, which is not a name and version',
    async (name) => {
      await start();
      expect(() => engine().commands.reject({ bundle: name })).toThrow(/^no bundle /);
    },
  );
});

describe('a revoked key', () => {
  it('takes the trust from an adopted bundle at once, and a new signature gives it back', async () => {
    const next = sampleKey('factory-2027');
    await start();
    const bundle = await node.make();
    node.plug(bundle.path);
    const before = await node.until(isActivated);
    revoke(node.key.privateKey.keyId);
    const report = await node.until((one) => bundleIn(one)?.reason?.code === 'trust/key-revoked');
    expect(bundleIn(report)).toMatchObject({ phase: 'activated', images: bundleIn(before)?.images });
    expect((await node.images()).every((image) => image.pinned)).toBe(true);
    await node.until(({ rejected }) => rejected[0]?.reason.code === 'bundle/revoked-key');
    node.unplug();
    installKeys(node.keysFolder, [next]);
    signAnew(bundle.path, [next]);
    node.plug(bundle.path);
    const mended = await node.until((one) => bundleIn(one) !== undefined && bundleIn(one)?.reason === undefined);
    expect(bundleIn(mended)?.signedBy).toEqual(['factory-2026', 'factory-2027']);
  });

  it('does not apply to a removed key: the bundle stays a source of blobs', async () => {
    await start();
    const bundle = await node.make();
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
    const { keyId } = next.privateKey;
    const notice = makeNotice(
      dir,
      {
        trust: { keys: [next.publicPem], names: { [keyId]: 'factory-2027' }, revoked: [] },
        warnings: ['nginx:1 is not in the bundle'],
      },
      [node.key],
    );
    const release = await makeSampleBundle({ dir, keys: [next] });
    node.plug(notice.path, release.path);
    const report = await node.until(isActivated);
    expect(report.bundles.map(({ version }) => version)).toEqual(['4.13.7']);
    const brought = { name: 'factory-2027', keyId, broughtBy: 'ocp@2026.1.1' };
    expect(report.trust).toMatchObject({ require: 'signature', threshold: 1, revoked: [] });
    expect(report.trust.keys).toContainEqual(brought);
    expect(report.trust.keys).toContainEqual({ name: 'factory-2026', keyId: node.key.privateKey.keyId });
    expect(node.log.kinds().filter((kind) => ['bundleWarned', 'keysRotated'].includes(kind))).toEqual([
      'bundleWarned',
      'keysRotated',
    ]);
    await node.stop();
    node.unplug();
    await node.start();
    expect(node.report().trust.keys).toContainEqual(brought);
    const later = await makeSampleBundle({ dir, version: '4.13.8', sequence: 101, keys: [next] });
    node.plug(later.path);
    await node.until((one) => bundleIn(one, '4.13.8')?.phase === 'activated');
  });

  it('revokes permanently: neither a later bundle nor the .pub restores the key', async () => {
    const [old, next] = [sampleKey('factory-2025'), sampleKey('factory-2027')];
    node = await createDaemonHarness({ keys: [old, next] });
    await node.start();
    const { keyId } = old.privateKey;
    const first = makeNotice(dir, { trust: { revoked: [keyId] } }, [next]);
    const second = makeNotice(dir, { version: '2026.1.2', sequence: 101, trust: { keys: [old.publicPem] } }, [next]);
    const release = await makeSampleBundle({ dir, keys: [old] });
    node.plug(first.path, second.path);
    const history = () => node.history();
    await node.until(() => history().filter(({ kind }) => kind === 'keysRotated').length === 2);
    node.unplug();
    node.plug(release.path);
    const { rejected, bundles } = await node.until((one) => one.rejected[0]?.reason.code === 'bundle/revoked-key');
    expect(rejected).toHaveLength(1);
    expect(bundles).toEqual([]);
    expect(node.report().trust.revoked).toEqual([{ keyId, revokedBy: 'ocp@2026.1.1' }]);
  });

  it('does not follow from an approval without a trusted signature', async () => {
    const next = sampleKey('factory-2027');
    const notice = makeNotice(dir, { trust: { keys: [next.publicPem] } }, []);
    const release = await makeSampleBundle({ dir, keys: [next] });
    await start({ settings: { trust: { require: 'approval', approved: [notice.bundleId] } } });
    node.plug(notice.path, release.path);
    await node.until(() => node.history().some(({ kind }) => kind === 'keysNotRotated'));
    const report = await node.until(isHeld);
    expect(report.bundles).toMatchObject([{ bundleId: release.bundleId, hold: 'approval', signedBy: [] }]);
  });
});

describe('revocations that can not be read', () => {
  /**
   * The bundle of a key that came by rotation and was revoked by a file, in front of a daemon that
   * has seen all of that.
   */
  async function withRevokedKey(text = (keyId: string) => `${keyId}\n`) {
    const [kept, stolen] = [sampleKey('kept'), sampleKey('stolen')];
    node = await createDaemonHarness({ keys: [kept] });
    writeFileSync(join(node.keysFolder, 'stolen.revoked'), text(stolen.privateKey.keyId), { mode: 0o644 });
    const notice = makeNotice(dir, { trust: { keys: [stolen.publicPem] } }, [kept]);
    const bundle = await makeSampleBundle({ dir, keys: [stolen] });
    await node.start(notice.path, bundle.path);
    await node.until(({ rejected, notices }) => notices.length === 1 && isRevoked(rejected));
    return { kept, stolen, bundle };
  }
  const isRevoked = (rejected: StatusReport['rejected']) =>
    rejected.some(({ reason }) => reason.code === 'bundle/revoked-key');
  const isUnreadable = ({ rejected, trust }: StatusReport) =>
    trust.revocationsUnreadable && rejected.some(({ reason }) => reason.code === 'bundle/revocations-unreadable');
  /** Nothing of it was ever taken up. */
  const expectNeverTrusted = () => {
    expect(node.statuses.filter((line) => line.includes('Preloading'))).toEqual([]);
    expect(node.report().bundles).toEqual([]);
  };
  const loseDatabase = () => {
    for (const name of ['state.db', 'state.db-wal', 'state.db-shm'])
      rmSync(join(node.base, 'state', name), { force: true });
  };

  const attacks: readonly (readonly [string, RegExp, () => void])[] = [
    [
      'the folder is gone',
      /is missing, but existed before.*install -d -m 0755/,
      () => rmSync(node.keysFolder, { recursive: true }),
    ],
    [
      'the folder is a file',
      /can't be read: .*not a directory.*mode 0755/,
      () => {
        rmSync(node.keysFolder, { recursive: true });
        writeFileSync(node.keysFolder, '');
      },
    ],
    [
      'the folder is a link without a target',
      /is a link without a target; repair the link/,
      () => {
        rmSync(node.keysFolder, { recursive: true });
        symlinkSync('/nowhere', node.keysFolder);
      },
    ],
    [
      'the folder is a link to itself',
      /can't be read: too many symbolic links encountered \(ELOOP/,
      () => {
        rmSync(node.keysFolder, { recursive: true });
        symlinkSync(node.keysFolder, node.keysFolder);
      },
    ],
    [
      'the folder holds 65 files',
      /holds more than 64 files/,
      () => {
        rmSync(join(node.keysFolder, 'stolen.revoked'));
        for (let i = 0; i < 64; i += 1) writeFileSync(join(node.keysFolder, `note-${i}.txt`), '');
      },
    ],
    [
      'a *.revoked file is a link without a target',
      /stolen\.revoked can't be read: no such file or directory \(ENOENT.*[Rr]epair the file/,
      () => {
        rmSync(join(node.keysFolder, 'stolen.revoked'));
        symlinkSync('/nowhere', join(node.keysFolder, 'stolen.revoked'));
      },
    ],
    [
      'a *.revoked file holds a key and a line that is none',
      /"who\?" is not a key id/,
      () => writeFileSync(join(node.keysFolder, 'stolen.revoked'), `${sampleKey().publicPem}who?\n`),
    ],
    [
      'the folder can be written by its group',
      /can be written by its group.*chmod go-w/,
      () => chmodSync(node.keysFolder, 0o775),
    ],
    [
      'a key file can be written by everybody',
      /kept\.pub can be written by everybody.*chmod go-w/,
      () => chmodSync(join(node.keysFolder, 'kept.pub'), 0o646),
    ],
  ];

  it.each(attacks)(
    'let nothing be trusted when %s, also after a restart and without the database',
    async (_name, cause, attack) => {
      await withRevokedKey();
      attack();
      // A change that is seen, since permissions change without a sign.
      node.daemon().reloadKeys();
      const report = await node.until(isUnreadable);
      expect(report.status).toMatch(/: Nothing is trusted, since revocations can't be read/);
      expect(report.advice.text).toMatch(cause);
      expect(report.rejected.at(-1)?.reason.message).toMatch(cause);
      expect(node.log.kinds()).toContain('revocationsUnreadable');
      expectNeverTrusted();
      await node.restart();
      await node.until(isUnreadable);
      expectNeverTrusted();
      await node.stop();
      loseDatabase();
      await node.start();
      await node.until(isUnreadable);
      expectNeverTrusted();
    },
  );

  it('stay in force when their file is gone, also after a restart, without the database or without its mirror', async () => {
    const { stolen } = await withRevokedKey();
    rmSync(join(node.keysFolder, 'stolen.revoked'));
    const remembered = { keyId: stolen.privateKey.keyId };
    const isRemembered = ({ trust, rejected }: StatusReport) =>
      trust.revoked[0]?.file === undefined && isRevoked(rejected);
    expect((await node.until(isRemembered)).trust.revoked).toEqual([remembered]);
    await node.stop();
    loseDatabase();
    await node.start();
    expect((await node.until(isRemembered)).trust.revoked).toEqual([remembered]);
    await node.stop();
    loseMirror(join(node.base, 'state'));
    await node.start();
    expect((await node.until(isRemembered)).trust.revoked).toEqual([remembered]);
    expectNeverTrusted();
  });

  it('revoke every key of a file, with a compressed or uncompressed point', async () => {
    const other = sampleKey('other', 'ecdsa-p256');
    const { stolen } = await withRevokedKey((keyId) => `${otherForm(other.publicPem, 'compressed')}${keyId}\n`);
    expect(node.report().trust.revoked.map(({ keyId }) => keyId)).toEqual(
      [other.privateKey.keyId, stolen.privateKey.keyId].sort(),
    );
    installKeys(node.keysFolder, [other, sampleKey('new')]);
    const report = await node.until(({ trust }) => trust.keys.length > 1);
    expect(report.trust.keys.map(({ name }) => name)).toEqual(['kept', 'new']);
  });

  it('stay in force while the folder is replaced as a whole', async () => {
    await start();
    const bundle = await node.make();
    node.plug(bundle.path);
    await node.until(isActivated);
    renameSync(node.keysFolder, join(node.base, 'keys.d.old'));
    await node.until(() =>
      node.log.lines.some(({ message }) => message.includes('it is read again, and the keys hold')),
    );
    installKeys(node.keysFolder, [node.key, sampleKey('new')]);
    const report = await node.until(({ trust }) => trust.keys.length === 2);
    expect(report.trust.revocationsUnreadable).toBe(false);
    expect(node.statuses.some((line) => line.includes('Nothing is trusted'))).toBe(false);
  });

  it('revoke no key on a node that never had the folder', async () => {
    node = await createDaemonHarness();
    rmSync(node.keysFolder, { recursive: true });
    await node.start((await node.make()).path);
    const report = await node.until(({ rejected }) => rejected[0]?.reason.code === 'bundle/no-key');
    expect(report.trust.revocationsUnreadable).toBe(false);
    installKeys(node.keysFolder, [node.key]);
    await node.until(isActivated);
  });
});

describe('stickpin trust restore', () => {
  it('lifts a stored revocation once its file is gone, and records who did it', async () => {
    await start();
    const { keyId } = node.key.privateKey;
    revoke(keyId);
    const bundle = await node.make();
    node.plug(bundle.path);
    await node.until(({ rejected }) => rejected[0]?.reason.code === 'bundle/revoked-key');
    expect(node.report().status).toMatch(/signature by revoked key .* no other key is trusted/);
    expect(node.log.lines.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/^No key is trusted, since factory-2026 is revoked: copy .* 'stickpin trust restore/),
    );
    const file = join(node.keysFolder, `${keyId.slice(0, 8)}.revoked`);
    await expect(node.daemon().restoreKey(keyId, 0)).rejects.toThrow(`revoked by ${file}: remove it`);
    await expect(node.daemon().restoreKey('ab'.repeat(32), 0)).rejects.toThrow('no revoked key has the id');
    rmSync(file);
    expect(await node.daemon().restoreKey(keyId.slice(0, 12), 0)).toContain(`Key ${keyId} was restored by user 0`);
    await node.until(isActivated);
    const history = node.history();
    expect(history.find(({ kind }) => kind === 'keyRestored')?.message).toContain('by user 0');
    await node.restart();
    await node.until(isActivated);
    expect(node.report().trust.revoked).toEqual([]);
    revoke(keyId);
    await node.until((report) => bundleIn(report)?.reason?.code === 'trust/key-revoked');
  });

  it('restores a key that was revoked by the id of another form of its point', async () => {
    const key = sampleKey('p256', 'ecdsa-p256');
    const pem = otherForm(key.publicPem, 'compressed');
    const der = createPublicKey(pem).export({ type: 'spki', format: 'der' });
    node = await createDaemonHarness({ keys: [key] });
    revoke(createHash('sha256').update(der).digest('hex'));
    await node.start();
    const bundle = await makeSampleBundle({ dir, keys: [key] });
    node.plug(bundle.path);
    await node.until(({ rejected }) => rejected.length === 1);
    const { keyId } = key.privateKey;
    const [revoked] = node.report().trust.revoked;
    expect(revoked).toMatchObject({ keyId, file: expect.stringMatching(/\.revoked$/) });
    await expect(node.daemon().restoreKey(keyId, 0)).rejects.toThrow('remove it from there first');
    rmSync(join(node.keysFolder, revoked?.file ?? ''));
    await node.daemon().restoreKey(keyId, 0);
    await node.until(isActivated);
  });

  it('counts more than a bundle that revoked the key', async () => {
    const [old, next] = [sampleKey('factory-2025'), sampleKey('factory-2027')];
    node = await createDaemonHarness({ keys: [old, next] });
    await node.start();
    const { keyId } = old.privateKey;
    const notice = makeNotice(dir, { trust: { revoked: [keyId] } }, [next]);
    const release = await makeSampleBundle({ dir, keys: [old] });
    node.plug(notice.path, release.path);
    await node.until(({ rejected }) => rejected[0]?.reason.code === 'bundle/revoked-key');
    await node.daemon().restoreKey(keyId, undefined);
    await node.until(isActivated);
    await node.restart();
    await node.until(isActivated);
    expect(node.report().trust.revoked).toEqual([]);
  });

  /** Two notices that revoke the same key, and a key that signs them. */
  function revokingTwice() {
    const [old, next] = [sampleKey('factory-2025'), sampleKey('factory-2027')];
    const { keyId } = old.privateKey;
    const notices = ['2026.1.1', '2026.1.2'].map((version, index) =>
      makeNotice(dir, { version, sequence: 100 + index, trust: { revoked: [keyId] } }, [next]),
    );
    return { keys: [old, next], keyId, notices };
  }
  const plugNotices = async (paths: readonly string[]) => {
    for (const path of paths) {
      const { notices: before } = await node.until(() => true);
      node.plug(path);
      await node.until(({ notices }) => notices.length === before.length + 1);
      node.unplug();
    }
  };

  it('is undone by a later bundle that revokes the key again, over a restart', async () => {
    const { keys, keyId, notices } = revokingTwice();
    node = await createDaemonHarness({ keys });
    await node.start();
    await plugNotices(notices.slice(0, 1).map(({ path }) => path));
    await node.daemon().restoreKey(keyId, 0);
    await node.until(({ trust }) => trust.revoked.length === 0);
    await plugNotices(notices.slice(1).map(({ path }) => path));
    const revoked = [{ keyId, revokedBy: 'ocp@2026.1.2' }];
    await node.until(({ trust }) => trust.revoked.length === 1);
    expect(node.report().trust.revoked).toEqual(revoked);
    await node.restart();
    expect((await node.until(() => true)).trust.revoked).toEqual(revoked);
  });
});
