import { describe, expect, it } from 'vitest';
import { releaseFilesPlan, spareAttachments } from '../../../../src/domain/decide/wanted-files.ts';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import { isVersion } from '../../../../src/domain/model/version.ts';
import { ownFolderOf } from '../../../../src/domain/release/hooks.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  digestOf,
  found,
  judge,
  keyIdOf,
  LEDGER,
  medium,
  NOON,
  observation,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const attachments = [{ name: 'notes.txt', mediaType: 'text/plain', digest: digestOf('notes'), size: 5 }];
const advisories = [{ version: '0.9.0', deadend: true as const, reason: 'x' }];
const release = verified({ attachments });
const ready = stored(release, { readyAt: NOON });

function plan(
  bundles: readonly StoredBundle[],
  installed: Readonly<Record<string, BundleId>> = {},
  over: Partial<Scene> = {},
) {
  const assessed = judge(observation(over), bundles).assessment;
  const { install, remove } = releaseFilesPlan(assessed, new Map(Object.entries(installed)));
  return {
    install: install.map(({ folder, bundle }) => [folder, bundle.bundleId]),
    remove,
  };
}

const pinLedger = { ...LEDGER, unclaimed: ['quay.example.com/lost@sha256:0'] };

describe('files of releases whose records may be lost', () => {
  it('stay while there are unclaimed pins', () => {
    const installed = { 'lost/1': digestOf('lost') as BundleId };
    expect(plan([], installed)).toEqual({ install: [], remove: ['lost/1'] });
    expect(plan([], installed, { pinLedger })).toEqual({ install: [], remove: [] });
    const retired = stored(release, { readyAt: NOON, retiredAt: NOON });
    const spare = (over: Partial<Scene>) =>
      spareAttachments(judge(observation(over), [retired]).assessment, new Set([digestOf('notes')]));
    expect(spare({})).toEqual([digestOf('notes')]);
    expect(spare({ pinLedger })).toEqual([]);
  });
});

describe('releaseFilesPlan', () => {
  it('installs the files of a bundle once when it is ready', () => {
    expect(plan([stored(release)])).toEqual({ install: [], remove: [] });
    expect(plan([ready])).toEqual({ install: [['ocp/4.13.7', release.bundleId]], remove: [] });
    expect(plan([ready], { 'ocp/4.13.7': release.bundleId })).toEqual({ install: [], remove: [] });
  });

  it('installs the files of a bundle without images when it is adopted', () => {
    const notice = verified({ attachments, images: {}, version: '1.0.0', advisories });
    expect(plan([stored(notice)]).install).toEqual([['ocp/1.0.0', notice.bundleId]]);
  });

  it('makes no folder for a bundle without files', () => {
    expect(plan([stored(verified(), { readyAt: NOON })])).toEqual({ install: [], remove: [] });
  });

  it('removes the files with the bundle', () => {
    const retired = { ...ready, retiredAt: NOON + 1 };
    expect(plan([retired], { 'ocp/4.13.7': release.bundleId })).toEqual({ install: [], remove: ['ocp/4.13.7'] });
    expect(plan([], { 'ocp/4.13.7': release.bundleId })).toEqual({ install: [], remove: ['ocp/4.13.7'] });
  });

  describe('of bundles with the same name and version', () => {
    const folder = 'ocp/4.13.7';
    const remade = verified({ attachments, sequence: 8 });
    const notice = verified({ attachments, images: {}, sequence: 9, advisories });
    const [ownOld, ownNew, ownNotice] = [release, remade, notice].map(ownFolderOf);
    const at = (over: Partial<StoredBundle>) => ({ ...ready, ...over });
    const again = (over: Partial<StoredBundle> = {}) => ({
      ...stored(remade, { readyAt: NOON }),
      adoptedAt: NOON + 1,
      ...over,
    });
    const told = { ...stored(notice), adoptedAt: NOON + 2 };

    it('gives each a folder of its own, and theirs to the one that was adopted last', () => {
      expect(plan([ready, again()], { [folder]: release.bundleId }).install).toEqual([
        [ownOld, release.bundleId],
        [folder, remade.bundleId],
        [ownNew, remade.bundleId],
      ]);
      const installed = { [folder]: remade.bundleId, [`${ownOld}`]: release.bundleId, [`${ownNew}`]: remade.bundleId };
      expect(plan([ready, again()], installed)).toEqual({ install: [], remove: [] });
    });

    it('gives theirs to the one that was activated last', () => {
      const active = at({ activatedAt: NOON + 1 });
      expect(plan([active, again()], { [folder]: release.bundleId }).install).toEqual([
        [ownOld, release.bundleId],
        [ownNew, remade.bundleId],
      ]);
      const both = { [`${ownOld}`]: release.bundleId, [`${ownNew}`]: remade.bundleId };
      const after = plan([active, again({ activatedAt: NOON + 2 })], { ...both, [folder]: release.bundleId });
      expect(after).toEqual({ install: [[folder, remade.bundleId]], remove: [] });
      const back = plan([at({ activatedAt: NOON + 3 }), again({ activatedAt: NOON + 2 })], {
        ...both,
        [folder]: remade.bundleId,
      });
      expect(back).toEqual({ install: [[folder, release.bundleId]], remove: [] });
    });

    it('keeps the folder of one that is left alone, since a hook may use it', () => {
      const both = { [folder]: release.bundleId, [`${ownOld}`]: release.bundleId, [`${ownNew}`]: remade.bundleId };
      expect(plan([ready, again({ retiredAt: NOON + 1 })], both)).toEqual({ install: [], remove: [ownNew] });
    });

    it('never gives theirs to a bundle without images while a release is kept, ready or not', () => {
      expect(plan([ready, told], { [folder]: release.bundleId }).install).toEqual([
        [ownOld, release.bundleId],
        [ownNotice, notice.bundleId],
      ]);
      expect(plan([stored(release), told], { [folder]: notice.bundleId })).toEqual({
        install: [[ownNotice, notice.bundleId]],
        remove: [folder],
      });
      const plain = stored(verified(), { readyAt: NOON });
      expect(plan([plain, told])).toEqual({ install: [[ownNotice, notice.bundleId]], remove: [] });
      const retired = at({ retiredAt: NOON + 1 });
      expect(plan([retired, told]).install).toEqual([[folder, notice.bundleId]]);
    });
  });

  it('keeps streams apart whose names and versions join to the same text', () => {
    const one = verified({ attachments, name: 'ocp-4', version: '1' });
    const other = verified({ attachments, name: 'ocp', version: '4-1', sequence: 8 });
    const both = [one, other].map((bundle) => stored(bundle, { readyAt: NOON }));
    expect(plan(both).install).toEqual([
      ['ocp-4/1', one.bundleId],
      ['ocp/4-1', other.bundleId],
    ]);
    expect(plan(both, { 'ocp-4/1': one.bundleId, 'ocp/4-1': other.bundleId })).toEqual({ install: [], remove: [] });
  });

  it('has no version that leads out of the folder of its stream', () => {
    for (const version of ['.', '..', 'a/b', '/', '../x', '', '.bundle', `1.${'0'.repeat(128)}`]) {
      expect([version, isVersion(version)]).toEqual([version, false]);
    }
  });

  it('keeps files of a bundle whose key was revoked, and installs no new ones', () => {
    const revoked = { revocations: { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false } };
    expect(plan([ready], {}, revoked)).toEqual({ install: [], remove: [] });
    expect(plan([ready], { 'ocp/4.13.7': release.bundleId }, revoked)).toEqual({ install: [], remove: [] });
  });
});

describe('spareAttachments', () => {
  const notes = digestOf('notes');
  const retired = stored(release, { readyAt: NOON, retiredAt: NOON + 1 });
  const spare = (bundles: readonly StoredBundle[], over: Partial<Scene> = {}, kept = [notes]) =>
    spareAttachments(judge(observation(over), bundles).assessment, new Set(kept));

  it('are those of retired releases that lie on the disk', () => {
    expect(spare([retired])).toEqual([notes]);
    expect(spare([retired], {}, [])).toEqual([]);
    expect(spare([ready])).toEqual([]);
    expect(spare([stored(release)])).toEqual([]);
  });

  it('are not attachments of another bundle, also of a notice or of one that is being adopted', () => {
    const next = verified({ attachments, version: '4.13.8', sequence: 8 });
    const notice = verified({ attachments, images: {}, version: '1.0.0', sequence: 9, advisories });
    expect(spare([retired, stored(next)])).toEqual([]);
    expect(spare([retired, stored(notice)])).toEqual([]);
    expect(spare([retired], { media: [medium('sdb1', [found(next)])] })).toEqual([]);
    expect(spare([retired, stored(next, { readyAt: NOON, retiredAt: NOON + 1 })])).toEqual([notes]);
  });

  it('are not what an image of any bundle names, retired or not', () => {
    const image = stored(verified({ version: '4.13.8', sequence: 8, imageOver: { etcd: { digest: notes } } }));
    expect(spare([retired, image])).toEqual([]);
    expect(spare([retired, { ...image, readyAt: NOON, retiredAt: NOON + 1 }])).toEqual([]);
    const blobs = [{ digest: notes, size: 5 }];
    const attached = [{ tag: 'sha256-x.sig', mediaType: 'm', digest: digestOf('sig'), size: 1, blobs }];
    expect(spare([retired, stored(verified({ sequence: 9, imageOver: { api: { attached } } }))])).toEqual([]);
  });
});
