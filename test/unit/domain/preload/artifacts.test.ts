import { describe, expect, it } from 'vitest';
import { spareAttachments } from '../../../../src/domain/decide/wanted-files.ts';
import type { RuntimeImage } from '../../../../src/domain/model/image.ts';
import { documentCheckOf } from '../../../../src/domain/release/damaged-images.ts';
import { eventsBetween } from '../../../../src/domain/report/events/events.ts';
import { reportOf } from '../../../../src/domain/report/report.ts';
import type { Snapshot } from '../../../../src/domain/report/snapshot.ts';
import { statusLine } from '../../../../src/domain/report/status/status-line.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { TaskFailure } from '../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import { Refusals } from '../../../../src/engine/reporting/events.ts';
import {
  allListed,
  artifactBlobs,
  artifactOf,
  found,
  judge,
  layer,
  listed,
  MIB,
  medium,
  NOON,
  observation,
  POLICY,
  pinsOf,
  reachable,
  type Scene,
  spoken,
  stored,
  UNSERVED,
  verified,
} from '../../../support/daemon/scenario.ts';
import { textOf } from '../../../support/daemon/told.ts';

const bundle = verified({ images: { etcd: ['etcd'] }, artifacts: { small: ['model'] } });
const small = artifactOf('small');
const runtime = reachable({ images: allListed(bundle) });
const stick = medium('sdb1', [found(bundle)]);
/** All blobs of the artifact except these. */
const without = (...lost: readonly string[]) =>
  new Set([...artifactBlobs(bundle)].filter((digest) => !lost.includes(digest)));
const snapshotOf = (scene: Scene, bundles: readonly StoredBundle[]): Snapshot => ({
  observed: scene,
  memory: scene,
  assessment: judge(scene, bundles).assessment,
});
const seen = (over: Partial<Scene>, marks: Partial<StoredBundle> = {}) =>
  judge(observation({ runtime, ...over }), [stored(bundle, marks)]).first;

describe('an artifact whose manifest or config is lost on this node', () => {
  const active = { readyAt: NOON, activatedAt: NOON };
  it.each([
    ['manifest', small.digest],
    ['config', small.config.digest],
  ])('is reported, since no medium is there, and waits for one: %s', (_what, digest) => {
    const localBlobs = without(digest);
    expect(textOf(seen({ localBlobs }, active)?.degraded)).toContain(
      `1 of 2 images and artifacts of ocp 4.13.7 is missing. The missing one is ${small.reference}. Plug in the stick of ocp 4.13.7`,
    );
    expect(seen({ localBlobs })).toMatchObject({ phase: 'held', hold: 'media', reason: { code: 'engine/no-source' } });
    expect(seen({ localBlobs, media: [stick] })).toMatchObject({ phase: 'preloading' });
    const lacking = medium('sdb1', [found(bundle, [{ digest, why: 'absent' }])]);
    expect(seen({ localBlobs, media: [lacking] })).toMatchObject({
      hold: 'media',
      reason: { code: 'bundle/blob-missing' },
    });
  });

  it('is completed also before its release was ready', () => {
    const check = (localBlobs: Scene['localBlobs']) =>
      documentCheckOf([stored(bundle)], observation({ localBlobs })).images.map(({ reference }) => reference);
    expect(check(without())).toEqual([]);
    expect(check(without(small.digest))).toEqual([small.reference]);
    expect(check(without(small.config.digest))).toEqual([small.reference]);
  });

  it('is reported when it is noticed by a check alone', () => {
    const last = { at: NOON, releases: '', media: '', kept: new Set<never>(), lacking: new Set([small.reference]) };
    const documentChecks = { isRunning: false, last: { ...last, lackingChecks: 2 } };
    const { degraded } = seen({ localBlobs: without(), documentChecks }, active) ?? {};
    expect(textOf(degraded)).toContain("1 of 2 images and artifacts of ocp 4.13.7 can't be pulled again");
  });
});

describe('a release whose images are all there, and an artifact is not', () => {
  it('names why its own files can not be copied, and not why those of another release can not', () => {
    const fault = { code: 'store/no-space', message: 'no room' };
    const because = (name: string) => seen({ media: [stick], copyFaults: new Map([[layer(name).digest, fault]]) });
    expect(because('model')).toMatchObject({ phase: 'preloading', reason: fault });
    expect(because('etcd')).toMatchObject({ phase: 'preloading' });
    expect(because('etcd')?.reason).toBeUndefined();
  });

  const DAY_MS = 24 * 60 * 60 * 1000;

  it('is given up after retention.incomplete, as one without an image is', () => {
    const given = (over: Partial<Scene>) =>
      judge(observation({ runtime, now: NOON + 14 * DAY_MS, ...over }), [stored(bundle)]).assessment.life.findings;
    expect(given({})).toMatchObject([{ kind: 'incomplete' }]);
    expect(given({ localBlobs: without() })).toEqual([]);
  });

  it('lets lost tags of the present release be restored', () => {
    const present = verified({ images: { api: ['api'] }, version: '4.13.6', sequence: 6 });
    const images = [...allListed(bundle), listed(pinsOf(present)[0] ?? '', true, [])];
    const observed = observation({ runtime: reachable({ images }) });
    const { assessment } = judge(observed, [
      stored(present, { readyAt: NOON, activatedAt: NOON, activeAt: NOON, provenAt: NOON }),
      stored(bundle),
    ]);
    expect(assessment.tags.due.map(({ tag }) => tag)).toEqual(['quay.example.com/ocp/api:4.13.6']);
  });
});

describe('artifacts in CRI-O', () => {
  const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
  const localBlobs = without();
  const pull = { kind: 'pull', bundleId: bundle.bundleId, reference: small.reference } as const;

  it('are pulled also where images of activated releases are not served, by mirrors of their own', () => {
    const renderedPins = [...pinsOf(bundle), small.reference].sort();
    const pinsRequested = { references: renderedPins, unpinned: '', attempts: 1, at: NOON };
    const effects = (renderedMirrors: readonly string[], more: readonly RuntimeImage[] = []) => {
      const crio = reachable({ images: [...allListed(bundle), ...more], renderedPins, renderedMirrors });
      return spoken(
        judge(observation({ localBlobs, runtime: crio, pinsRequested }), [active], UNSERVED).decision.effects,
      );
    };
    expect(effects([])).toEqual(['apply-mirrors small']);
    expect(effects(['models.example.com/small'])).toEqual(['pull small']);
    expect(effects(['models.example.com/small'], [listed(small.reference)])).toEqual(['apply-mirrors']);
  });

  it('count as one fault with images when policy.json refuses them, also in the journal', () => {
    const reason = (name: string) => ({ code: 'runtime/policy', message: `no ${name}` });
    const refused = (name: string, reference: string): TaskFailure => ({
      task: { ...pull, reference },
      attempts: 1,
      reason: reason(name),
      retryAt: undefined,
    });
    const two = verified({ images: { etcd: ['etcd'] }, artifacts: { small: ['model'], large: ['weights'] } });
    const failures = [refused('small', small.reference), refused('large', artifactOf('large').reference)];
    const scene = observation({ runtime, localBlobs: artifactBlobs(two), failures });
    const snapshot = snapshotOf(scene, [stored(two, { readyAt: NOON, activatedAt: NOON })]);
    const text =
      'policy.json of this node refuses 2 images and artifacts of ocp 4.13.7. The runtime says of the first one: no small.';
    expect(textOf(snapshot.assessment.bundles[0]?.degraded)).toContain(text);
    const events = (seen: Snapshot) => new Refusals().eventsOf(seen).map(({ message }) => message);
    expect(events(snapshot)).toEqual([expect.stringContaining(text)]);
  });

  it('are not pulled where their copies do not fit, which is shown', () => {
    const filesystem = { path: '/var/lib/containers', totalBytes: 100 * MIB, freeBytes: 20 * MIB };
    const scene = observation({ localBlobs, runtime: reachable({ images: allListed(bundle), filesystem }) });
    const { first, decision } = judge(scene, [active]);
    expect(first).toMatchObject({ phase: 'activated', degraded: undefined });
    expect(textOf(first?.trouble)).toContain('Not enough space for ocp 4.13.7 on /var/lib/containers: needs 10 MiB');
    expect(spoken(decision.effects)).not.toContain('pull small');
  });

  it('are no preload: no status asks for the stick', () => {
    const snapshot = snapshotOf(observation({ runtime, localBlobs, running: [pull] }), [active]);
    expect(statusLine(snapshot, { doneBytes: 1, totalBytes: 2, waitingTransfers: 0 })).toMatch(/^IDLE: /);
    const stickGone = eventsBetween(
      snapshotOf(observation({ runtime, localBlobs, running: [pull], media: [stick] }), [active]),
      snapshot,
    );
    expect(stickGone.map(({ message }) => message)).toEqual(['sdb1 was removed']);
  });

  it('keep their pins claimed when an older CRI-O runs', () => {
    const old = reachable({
      name: 'cri-o 1.35.0',
      images: allListed(bundle),
      foundPins: [...pinsOf(bundle), small.reference],
    });
    expect(judge(observation({ runtime: old, localBlobs }), [active]).assessment.pins.unclaimed).toEqual([]);
  });
});

it('an artifact keeps the file that a retired release had attached', () => {
  const { digest, sizeBytes: size } = layer('model');
  const attaching = verified({
    version: '4.13.6',
    sequence: 6,
    attachments: [{ name: 'm', mediaType: 'a/b', digest, size }],
  });
  const gone = stored(attaching, { readyAt: NOON, retiredAt: NOON });
  const spare = (bundles: readonly StoredBundle[]) =>
    spareAttachments(judge(observation({ runtime, localBlobs: without() }), bundles).assessment, new Set([digest]));
  expect(spare([gone])).toEqual([digest]);
  expect(spare([gone, stored(bundle)])).toEqual([]);
});

it('a release with other artifacts does not retire the one with the same images', () => {
  const proven = stored(bundle, { readyAt: NOON, activatedAt: NOON, activeAt: NOON, provenAt: NOON });
  const next = (artifacts: Readonly<Record<string, readonly string[]>>) =>
    stored(verified({ version: '4.13.8', sequence: 8, images: { etcd: ['etcd'] }, artifacts }), {
      readyAt: NOON,
      activatedAt: NOON + 1,
    });
  const effects = (artifacts: Parameters<typeof next>[0]) =>
    judge(observation({ runtime, localBlobs: artifactBlobs(next(artifacts)) }), [proven, next(artifacts)]).decision
      .effects;
  expect(effects({ small: ['model'] })).toContainEqual(
    expect.objectContaining({ kind: 'take-over', retireFrom: true }),
  );
  expect(effects({ large: ['model'] })).toContainEqual(
    expect.objectContaining({ kind: 'take-over', retireFrom: false }),
  );
});

it('are counted while their bundle waits for an approval, or nothing can be recorded', () => {
  const obstacle = { code: 'store/read-only', message: 'read-only' };
  const counted = { artifacts: { total: 1, present: 0 } };
  const report = (scene: Scene, policy?: Policy) => {
    const snapshot = { observed: scene, memory: scene, assessment: judge(scene, [], policy).assessment };
    return reportOf(snapshot, { doneBytes: 0, totalBytes: 0, waitingTransfers: 0 }).bundles;
  };
  expect(report(observation({ media: [stick], obstacle }))).toMatchObject([{ phase: 'detected', ...counted }]);
  const policy = { ...POLICY, trust: { ...POLICY.trust, require: 'approval' as const } };
  expect(report(observation({ media: [stick] }), policy)).toMatchObject([{ hold: 'approval', ...counted }]);
});
