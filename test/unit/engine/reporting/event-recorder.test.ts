import { describe, expect, it } from 'vitest';
import type { Event } from '../../../../src/domain/model/condition.ts';
import { EventRecorder } from '../../../../src/engine/reporting/event-recorder.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import type { EventRow, StateStore } from '../../../../src/ports/state.ts';
import {
  digestOf,
  found,
  judge,
  medium,
  NOON,
  observation,
  storedState,
  verified,
} from '../../../support/daemon/scenario.ts';
import { createVirtualClock } from '../../../support/fake-ports.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

function make() {
  const clock = createVirtualClock();
  const log = createRecordingLog();
  const rows: EventRow[] = [];
  const disk = { isFull: false };
  const store: StateStore = {
    load: () => storedState([]),
    adopt: () => undefined,
    rebuild: () => undefined,
    forget: () => undefined,
    change: () => undefined,
    cancel: () => undefined,
    setCancelledMedia: () => undefined,
    setVerdict: () => undefined,
    rejectName: () => undefined,
    allowName: () => undefined,
    trouble: () => undefined,
    rollBack: () => undefined,
    setPauses: () => undefined,
    setSightings: () => undefined,
    setPulledByUs: () => undefined,
    settled: async () => undefined,
    mirror: async () => undefined,
    conditions: () => new Map(),
    setConditions: () => undefined,
    tagsGiven: () => [],
    setTagsGiven: () => undefined,
    append: (row) => {
      if (disk.isFull) throw new Error('database or disk is full');
      rows.push(row);
    },
    events: () => rows,
    newestEvent: () => rows.length,
  };
  return { recorder: new EventRecorder({ clock, log, store }), log, rows, clock, disk };
}

const event: Event = { kind: 'mediumGone', level: 'info', medium: 'sdb1', message: 'sdb1 was removed' };
const bundle = verified();
const { assessment } = judge(observation({ media: [medium('sdb1', [found(bundle)])] }));

describe('recorder', () => {
  it('writes the journal with all fields, and the history with the time', () => {
    const { recorder, log, rows } = make();
    const digest = digestOf('blob');
    recorder.record({ ...event, bundleId: bundle.bundleId, digest });
    expect(log.lines).toEqual([
      {
        level: 'info',
        message: 'sdb1 was removed',
        fields: { messageId: messageIds.mediumGone, medium: 'sdb1', bundleId: bundle.bundleId, digest },
      },
    ]);
    expect(rows).toEqual([
      { at: NOON, kind: 'mediumGone', message: 'sdb1 was removed', bundleId: bundle.bundleId, medium: 'sdb1' },
    ]);
  });

  it('names the version and the phase of a release that is known, and the code of a reason', () => {
    const { log, rows } = make();
    const recorder = new EventRecorder({
      clock: createVirtualClock(),
      log,
      store: { append: (row) => void rows.push(row) },
      releaseOf: (bundleId) => (bundleId === bundle.bundleId ? { version: '4.13.7', phase: 'held' } : undefined),
    });
    recorder.record({ ...event, bundleId: bundle.bundleId, code: 'engine/no-space' });
    recorder.record({ ...event, bundleId: digestOf('other') as typeof bundle.bundleId });
    expect(log.lines.map(({ fields }) => fields)).toEqual([
      expect.objectContaining({ bundleVersion: '4.13.7', phase: 'held', code: 'engine/no-space' }),
      expect.not.objectContaining({ phase: expect.anything() }),
    ]);
  });

  it('logs an event when the history is full, and logs once that it is full', () => {
    const { recorder, log, rows, disk } = make();
    disk.isFull = true;
    recorder.record(event);
    recorder.record(event);
    expect(log.lines.map(({ message }) => message)).toEqual([
      'sdb1 was removed',
      "The history can't be written: database or disk is full",
      'sdb1 was removed',
    ]);
    disk.isFull = false;
    recorder.record(event);
    expect(rows).toHaveLength(1);
  });

  it('logs the same failure once a minute and another one at once, and returns the reason each time', async () => {
    const { recorder, log, clock } = make();
    const fail = (message: string) =>
      recorder.recordFailure(
        { kind: 'apply-pins', references: [], unpinned: '', force: false },
        assessment,
        new AppError({ code: 'runtime/config', message, disposition: 'retry' }),
      );
    expect(fail('a')).toEqual({ code: 'runtime/config', message: 'Rendering the pins failed: a' });
    expect(fail('a')).toEqual({ code: 'runtime/config', message: 'Rendering the pins failed: a' });
    expect(log.lines).toHaveLength(1);
    fail('b');
    expect(log.lines).toHaveLength(2);
    await clock.advance(59_999);
    fail('b');
    expect(log.lines).toHaveLength(2);
    await clock.advance(1);
    fail('b');
    expect(log.lines).toHaveLength(3);
  });

  it('records the same failure once an hour, also when others come in between', async () => {
    const { recorder, rows, log, clock } = make();
    const fail = (message: string) =>
      recorder.recordFailure({ kind: 'mount-medium', mediumId: '7-sdb1' }, assessment, new Error(message));
    fail('a');
    fail('b');
    fail('a');
    expect(log.lines).toHaveLength(3);
    expect(rows).toMatchObject([
      { kind: 'roundFailed', message: 'Mounting 7-sdb1 failed: a' },
      { kind: 'roundFailed', message: 'Mounting 7-sdb1 failed: b' },
    ]);
    await clock.advance(3_599_999);
    fail('a');
    expect(rows).toHaveLength(2);
    await clock.advance(60_000);
    fail('a');
    expect(rows).toHaveLength(3);
  });

  it('does not report a medium that goes away as something unexpected, and returns the reason', () => {
    const { recorder, log } = make();
    const effect = { kind: 'keep-documents', bundleId: bundle.bundleId, mediumId: 'peer:worker-2' } as const;
    const gone = new AppError({ code: 'media/gone', message: 'worker-2 gives nothing now', disposition: 'wait' });
    expect(recorder.recordFailure(effect, assessment, gone)).toEqual({
      code: 'media/gone',
      message: 'Keeping the manifests of ocp 4.13.7 failed: worker-2 gives nothing now',
    });
    expect(log.lines).toEqual([]);
    recorder.recordFailure(
      effect,
      assessment,
      new AppError({ code: 'media/read', message: 'EIO', disposition: 'retry' }),
    );
    expect(log.kinds()).toEqual(['roundFailed']);
  });

  it('names a failed effect in plain words', () => {
    const { recorder } = make();
    const said = (effect: Parameters<typeof recorder.recordFailure>[0]) =>
      recorder.recordFailure(effect, assessment, new Error('no')).message;
    const { bundleId } = bundle;
    expect(said({ kind: 'keep-documents', bundleId, mediumId: '7-sdb1' })).toBe(
      'Keeping the manifests of ocp 4.13.7 failed: no',
    );
    expect(said({ kind: 'adopt-bundle', bundleId, mediumId: '7-sdb1' })).toBe('Taking up ocp 4.13.7 failed: no');
    expect(said({ kind: 'mount-medium', mediumId: '7-sdb1' })).toBe('Mounting 7-sdb1 failed: no');
    expect(said({ kind: 'apply-mirrors', repositories: [] })).toBe('Rendering the mirrors failed: no');
  });
});
