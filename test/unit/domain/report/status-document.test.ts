import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as v from 'valibot';
import { afterAll, expect, it } from 'vitest';
import { PublishedFiles } from '../../../../src/app/daemon/published-files.ts';
import { NODE_DOCUMENTS } from '../../../../src/cli/schema/documents.ts';
import { type Condition, conditionsOf, marksAfter } from '../../../../src/domain/model/condition.ts';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import { judgeConditions, judgeNodeConditions } from '../../../../src/domain/report/judge-conditions.ts';
import { recordedReport } from '../../../../src/domain/report/parts/recorded-report.ts';
import { reportOf } from '../../../../src/domain/report/report.ts';
import { lastingStatus } from '../../../../src/domain/report/snapshot.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { defaultSettings, type Policy } from '../../../../src/domain/settings/settings.ts';
import { healthOf, labelsOf, nodeStatusOf, publishedStatus } from '../../../../src/fleet/publish/node-status.ts';
import { parseOwnReport } from '../../../../src/fleet/publish/own-report.ts';
import { sampleReport } from '../../../support/bus/fake-backend.ts';
import {
  allListed,
  found,
  judge,
  keyIdOf,
  listed,
  medium,
  NOON,
  observation,
  pullOf,
  reachable,
  refused,
  stored,
  TRUST,
  verified,
} from '../../../support/daemon/scenario.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

/** A node on which as much as possible goes on: all of the document is filled. */
const policy: Policy = {
  ...defaultSettings,
  update: {
    ...defaultSettings.update,
    strategy: 'window',
    windows: [{ days: [5], startMinute: 23 * 60, lengthMinutes: 90 }],
  },
  lifecycle: { ...defaultSettings.lifecycle, protect: ['ocp@4.13.5'] },
};
const release = (version: string, sequence: number, over: Parameters<typeof verified>[0] = {}) =>
  verified({ version, sequence, images: { [`etcd-${sequence}`]: ['base', version], api: ['base', 'api'] }, ...over });
const done = { readyAt: NOON + 1, activatedAt: NOON + 2, provenAt: NOON + 3 };
const old = stored(release('4.13.5', 5), { ...done, adoptedAt: NOON - 9 });
const current = stored(release('4.13.6', 6), { ...done, activatedAt: NOON + 4, adoptedAt: NOON - 8 });
const next = release('4.13.7', 7, {
  update: { from: '>=4.13.6', rollout: { durationMinutes: 90, startPercentage: 0.1 }, endOfLife: '2026-04-01' },
  warnings: ['an image has no tag'],
  annotations: { 'io.stickpin.verified.1': 'quay.io/edge: signed by key 5f0c (cosign.pub): 2 images' },
});
const ready = stored(verified({ name: 'tools', version: '1.0.0', sequence: 1, images: { tool: ['tool'] } }), {
  readyAt: NOON + 1,
  cancelled: { at: NOON + 1, media: ['7-sda1'] },
});
const notice = stored(
  verified({
    version: '4.13.8',
    sequence: 8,
    images: {},
    advisories: [{ version: '4.13.7', deadend: true, reason: 'etcd may lose writes' }],
  }),
);
const bundles = [old, current, stored(next), ready, notice];
const awaiting = verified({ name: 'shop', version: '2.0.0', signedBy: [] });
const rejectedNames = [{ name: 'ocp', version: '4.13.9', reason: 'too old', at: NOON }];
const scene = observation({
  media: [
    medium('sdb1', [
      found(next),
      refused(),
      { kind: 'unapproved', path: 'stickpin/shop', bundleId: awaiting.bundleId },
    ]),
    medium('sdc1', { kind: 'failed', reason: { code: 'media/mount', message: 'no filesystem' } }),
  ],
  runtime: reachable({
    images: [...allListed(old), ...allListed(current), ...allListed(ready), listed(`quay.io/lost@${current.bundleId}`)],
    renderedPins: [],
    foundPins: [`quay.io/lost@${current.bundleId}`],
  }),
  running: [pullOf(next, 'etcd-7')],
  containers: [],
  trust: {
    ...TRUST,
    keys: [...TRUST.keys, { name: 'rotated', keyId: keyIdOf('rotated'), broughtBy: old.bundleId }],
    roles: [
      {
        name: 'apps',
        threshold: 1,
        streams: ['shop*'],
        repositories: ['quay.io/shop'],
        mayRotate: false,
        mayKeepForLife: false,
        keys: [{ name: 'shop', keyId: keyIdOf('shop') }],
      },
    ],
    revoked: [
      { keyId: keyIdOf('stolen'), revokedBy: old.bundleId, role: 'apps' },
      { keyId: keyIdOf('a'), byPerson: true },
    ],
    problems: ['notes.txt is ignored'],
  },
  hooks: {
    running: [{ hook: 'ready', unit: 'a.service', bundleId: current.bundleId, event: NOON, startedAt: NOON }],
    failed: [
      {
        hook: 'activated',
        unit: 'b.service',
        bundleId: current.bundleId,
        event: NOON,
        why: { kind: 'absent' },
        attempts: 1,
        retryAt: NOON + 30_000,
      },
    ],
    ledger: new Map([
      [
        'proven',
        {
          unit: 'c.service',
          done: new Map(),
          failure: { bundleId: old.bundleId, why: { kind: 'active' }, at: NOON },
        },
      ],
    ]),
    installed: new Map(),
    degraded: new Map(),
  },
  stateProblems: [{ code: 'store/damaged', message: 'state.db was damaged' }],
  fleet: {
    self: 'worker-1',
    nodes: [
      {
        name: 'worker-2',
        isAbsent: false,
        status: {
          version: 1,
          releases: [{ name: 'ocp', version: '4.14.0', bundle: 'a'.repeat(16), phase: 'proven', current: true }],
        },
      },
    ],
    peers: [],
  },
});

function richReport(): StatusReport {
  const { assessment } = judge(scene, bundles, policy, { rejectedNames });
  const conditions = new Map<BundleId, readonly Condition[]>(
    [...judgeConditions(scene, scene, assessment)].map(([{ bundle }, verdicts]) => [
      bundle.bundleId,
      conditionsOf(verdicts, marksAfter({}, verdicts, NOON)),
    ]),
  );
  const snapshot = { observed: scene, memory: scene, assessment };
  const verdicts = judgeNodeConditions(snapshot);
  const progress = { doneBytes: 3, totalBytes: 9, bytesPerSecond: 1.6, isUnpacking: true, waitingTransfers: 0 };
  return reportOf(snapshot, progress, conditions, conditionsOf(verdicts, marksAfter({}, verdicts, NOON)));
}

const base = mkdtempSync(join(tmpdir(), 'stickpin-status-'));
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** What the daemon writes into `status.json`. */
async function statusFile(report: StatusReport): Promise<string> {
  const files = new PublishedFiles({
    stateDirectory: join(base, 'state'),
    runDirectory: join(base, 'run'),
    bootId: 'boot-1',
    arch: 'amd64',
    clock: { now: () => NOON, monotonic: () => NOON },
    log: createRecordingLog(),
    imagesEnvBefore: '',
  });
  files.publish({ imagesEnv: '', report });
  await files.settled();
  return readFileSync(join(base, 'run/status.json'), 'utf8');
}

const inLines = (document: unknown) => `${JSON.stringify(document, null, 2)}\n`;

it.each([
  ['rich', richReport],
  ['sample', sampleReport],
])('the status document and what is made of it is what it was: %s', async (name, make) => {
  const report = make();
  const text = await statusFile(report);
  const document: unknown = JSON.parse(text);
  expect(text).toBe(`${JSON.stringify(document)}\n`);
  expect(v.parse(NODE_DOCUMENTS.status, document)).toEqual(document);
  await expect(inLines(document)).toMatchFileSnapshot(`golden/${name}-status.json`);
  await expect(inLines(JSON.parse(lastingStatus(report)))).toMatchFileSnapshot(`golden/${name}-lasting.json`);
  const parsed = parseOwnReport(text);
  if (parsed.kind === 'foreign') throw new Error(parsed.why);
  const status = nodeStatusOf(parsed.report);
  const fleet = {
    status,
    annotation: publishedStatus(status),
    labels: labelsOf(parsed.report),
    health: healthOf(parsed.report),
  };
  await expect(inLines(fleet)).toMatchFileSnapshot(`golden/${name}-fleet.json`);
});

it('what the records alone say is what it was', async () => {
  await expect(inLines(recordedReport({ bundles, rejectedNames }))).toMatchFileSnapshot('golden/recorded.json');
  await expect(inLines(recordedReport({ bundles, rejectedNames }, richReport()))).toMatchFileSnapshot(
    'golden/recorded-and-written.json',
  );
});
