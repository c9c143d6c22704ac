import { describe, expect, it } from 'vitest';
import type { BundleId } from '../../../src/domain/digest.ts';
import { releaseFilesPlan, spareAttachments } from '../../../src/domain/release-files.ts';
import type { Observed, StoredBundle } from '../../../src/domain/state.ts';
import {
  digestOf,
  found,
  judge,
  keyIdOf,
  medium,
  NOON,
  observation,
  stored,
  verified,
} from '../../support/scenario.ts';

const attachments = [{ name: 'notes.txt', mediaType: 'text/plain', digest: digestOf('notes'), size: 5 }];
const release = verified({ attachments });
const ready = stored(release, { readyAt: NOON });

function plan(
  bundles: readonly StoredBundle[],
  laid: Readonly<Record<string, BundleId>> = {},
  over: Partial<Observed> = {},
) {
  const { lay, remove } = releaseFilesPlan(judge(observation(over), bundles).assessment, new Map(Object.entries(laid)));
  return { lay: lay.map(({ folder, bundle }) => [folder, bundle.bundleId]), remove };
}

describe('releaseFilesPlan', () => {
  it('lays the files of a bundle when it is ready, once', () => {
    expect(plan([stored(release)])).toEqual({ lay: [], remove: [] });
    expect(plan([ready])).toEqual({ lay: [['ocp-4.13.7', release.bundleId]], remove: [] });
    expect(plan([ready], { 'ocp-4.13.7': release.bundleId })).toEqual({ lay: [], remove: [] });
  });

  it('lays those of a bundle without images when it is adopted', () => {
    const notice = verified({ attachments, images: {}, version: '1.0.0' });
    expect(plan([stored(notice)]).lay).toEqual([['ocp-1.0.0', notice.bundleId]]);
  });

  it('makes no folder for a bundle without files', () => {
    expect(plan([stored(verified(), { readyAt: NOON })])).toEqual({ lay: [], remove: [] });
  });

  it('takes them away with the bundle', () => {
    const retired = { ...ready, retiredAt: NOON + 1 };
    expect(plan([retired], { 'ocp-4.13.7': release.bundleId })).toEqual({ lay: [], remove: ['ocp-4.13.7'] });
    expect(plan([], { 'ocp-4.13.7': release.bundleId })).toEqual({ lay: [], remove: ['ocp-4.13.7'] });
  });

  it('gives a folder that two bundles want to the one that was adopted last', () => {
    const again = { ...stored(verified({ attachments, sequence: 8 }), { readyAt: NOON }), adoptedAt: NOON + 1 };
    expect(plan([ready, again], { 'ocp-4.13.7': release.bundleId }).lay).toEqual([['ocp-4.13.7', again.bundleId]]);
    expect(plan([ready, again], { 'ocp-4.13.7': again.bundleId }).lay).toEqual([]);
  });

  it('leaves files of a bundle whose key was revoked, and lays none', () => {
    const revoked = { revocations: { keyIds: [keyIdOf('factory-2026')], isBlind: false } };
    expect(plan([ready], {}, revoked)).toEqual({ lay: [], remove: [] });
    expect(plan([ready], { 'ocp-4.13.7': release.bundleId }, revoked)).toEqual({ lay: [], remove: [] });
  });
});

describe('spareAttachments', () => {
  const notes = digestOf('notes');
  const retired = stored(release, { readyAt: NOON, retiredAt: NOON + 1 });
  const spare = (bundles: readonly StoredBundle[], over: Partial<Observed> = {}, kept = [notes]) =>
    spareAttachments(judge(observation(over), bundles).assessment, new Set(kept));

  it('are those of retired releases that lie on the disk', () => {
    expect(spare([retired])).toEqual([notes]);
    expect(spare([retired], {}, [])).toEqual([]);
    expect(spare([ready])).toEqual([]);
    expect(spare([stored(release)])).toEqual([]);
  });

  it('are not what another bundle has attached, be it a notice or one that is being taken up', () => {
    const next = verified({ attachments, version: '4.13.8', sequence: 8 });
    const notice = verified({ attachments, images: {}, version: '1.0.0', sequence: 9 });
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
