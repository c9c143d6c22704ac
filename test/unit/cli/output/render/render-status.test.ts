import { describe, expect, it } from 'vitest';
import { renderStoredStatus } from '../../../../../src/cli/output/render/render-show.ts';
import { holdEnd, renderList, renderStatus } from '../../../../../src/cli/output/render/render-status.ts';
import { reportOf } from '../../../../../src/domain/report/report.ts';
import type { BundleReport } from '../../../../../src/domain/report/status-schema.ts';
import { idleReport, sampleReport } from '../../../../support/bus/fake-backend.ts';
import { found, judge, medium, observation, stored, verified } from '../../../../support/daemon/scenario.ts';

const reason = { code: 'media/filesystem', message: 'sdc1 is not read:\nthe filesystem xfs is not mounted by default' };
const failed = medium('sdc1', { kind: 'failed', reason });
const line = "Can't read sdc1: sdc1 is not read: the filesystem xfs is not mounted by default";
/** The report has texts of one line. */
const shown = { ...reason, message: line.slice("Can't read sdc1: ".length) };
const bundle = verified();
const report = (media: readonly ReturnType<typeof medium>[]) => {
  const observed = observation({ media });
  const progress = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
  const known = media.length > 1 ? [stored(bundle)] : [];
  return reportOf({ observed, memory: observed, assessment: judge(observed, known).assessment }, progress);
};

describe('the status of a daemon that does not run', () => {
  it('says so first, and has no bar and no time left', () => {
    const advice = { action: 'leave-in', words: 'LEAVE THE STICK IN', text: 'Preloading ocp 4.13.7.' } as const;
    const progress = { doneBytes: 5, totalBytes: 16, bytesPerSecond: 2, images: ['etcd'] };
    const time = { writtenAt: '2026-09-01T08:14:05.112Z', isFromBefore: true };
    const lines = renderStoredStatus({ ...idleReport({}), advice, progress }, time).split('\n');
    expect(lines.slice(0, 3)).toEqual([
      'The daemon does not run. This is the state of 2026-09-01T08:14:05.112Z, before the last boot.',
      'LEAVE THE STICK IN: Preloading ocp 4.13.7.',
      expect.stringMatching(/^Runtime: /),
    ]);
  });
});

describe('a medium that can not be read', () => {
  it('is in status and its JSON, with the reason', () => {
    expect(report([failed]).media).toEqual([
      { medium: 'sdc1', kind: 'stick', state: 'failed', bundles: 0, reason: shown },
    ]);
    expect(renderStatus(report([failed])).split('\n')).toContain(line);
  });

  it('is in the list, whether bundles are known or not', () => {
    const none = renderList(report([failed]));
    expect(none).toMatch(/^PLUG IN ANOTHER STICK \(M-02\): Cannot read the stick/);
    expect(none).toContain(`\n\nNo bundle is known and none is plugged in.\n${line}\n`);
    const lines = renderList(report([medium('sdb1', [found(bundle)]), failed])).split('\n');
    expect(lines[3]).toMatch(/^ocp@4\.13\.7/);
    expect(lines).toContain(line);
  });
});

describe('the list', () => {
  const [release] = sampleReport().bundles;
  const retired = (over: object) => ({ ...release, phase: 'retired', media: [], ...over }) as BundleReport;
  const old = retired({ bundleId: 'sha256:old', version: '4.13.1' });
  const plugged = retired({ bundleId: 'sha256:plugged', version: '4.13.2', media: ['sdb1'] });

  it('hides retired releases that are not plugged in, and says how many', () => {
    const report = idleReport({ bundles: [old, plugged] });
    const lines = renderList(report).split('\n');
    expect(lines[3]).toMatch(/^ocp@4\.13\.2 +retired/);
    expect(lines.join()).not.toContain('4.13.1');
    expect(lines.at(-2)).toBe("1 retired release is not shown; 'stickpin list --all' shows it.");
    const all = renderList(report, {}, true);
    expect(all).toContain('ocp@4.13.1');
    expect(all).not.toContain('--all');
  });

  it('says so where nothing else is known', () => {
    expect(renderList(idleReport({ bundles: [old, { ...old, bundleId: 'sha256:older' }] }))).toBe(
      "IDLE: No bundle yet.\n\nNo bundle is plugged in.\n2 retired releases are not shown; 'stickpin list --all' shows them.\n",
    );
  });
});

it.each([
  ['fleet/order', 'event', '. It ends automatically'],
  ['rule/barrier', 'event', '. It ends automatically'],
  ['window', 'time', '. It ends automatically on 2030-01-01T00:00:00.000Z'],
  ['fleet/failed', 'event', /^\. See 'stickpin history ocp@1' on that node for the cause, and repair it; then plug in/],
  ['fleet/unknown', 'event', /^\. See 'systemctl status stickpin-fleet' and start it$/],
  ['clock', 'event', /^\. Set the clock of this node, /],
  ['engine/content-damaged', 'event', /^\. Plug in the stick of ocp@1; /],
  ['engine/pulls-from-elsewhere', 'event', /^\. Add the image to a bundle under this name, /],
  ['hook', 'time', /^\. See 'systemctl status' of the unit/],
  ['engine/manual', 'person', ". To activate it now, run 'stickpin activate ocp@1'"],
  ['trust/withdrawn', 'person', ''],
] as const)('the end of hold %s by %s', (code, releasedBy, end) => {
  const hold = { gate: '', code, message: '', releasedBy, until: '2030-01-01T00:00:00.000Z' };
  expect(holdEnd(hold, 'ocp@1')).toEqual(typeof end === 'string' ? end : expect.stringMatching(end));
});

it.each([
  ['window', ': why. It ends automatically, not before 2030-01-01T00:00:00Z'],
  ['engine/tags', ': why. It is tried again at 2030-01-01T00:00:00Z'],
])('the time of a ready release is said by its reason: %s', (code, end) => {
  const hold = {
    gate: 'window',
    code: 'window',
    message: '',
    releasedBy: 'time',
    until: '2030-01-01T00:00:00.000Z',
  } as const;
  const [bundle] = sampleReport().bundles;
  if (bundle === undefined) expect.unreachable();
  const ready: BundleReport = { ...bundle, phase: 'ready', reason: { code, message: 'why' }, activationHolds: [hold] };
  expect(renderList(idleReport({ bundles: [ready] })).replaceAll('\n', ' ')).toContain(end);
});
