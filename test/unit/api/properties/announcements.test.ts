import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ChangeAnnouncer } from '../../../../src/api/properties/objects.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import type { OutgoingSignal } from '../../../../src/host/bus/message-bus.ts';
import { fakeBackend, idleReport, sampleReport } from '../../../support/bus/fake-backend.ts';
import { createVirtualClock, type VirtualClock } from '../../../support/fake-ports.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

describe('announcements on D-Bus', () => {
  let clock: VirtualClock;
  let sent: OutgoingSignal[];
  let publish: (report: StatusReport) => void;
  let announcer: ChangeAnnouncer;
  const log = createRecordingLog();

  beforeEach(() => {
    clock = createVirtualClock();
    sent = [];
    const backend = fakeBackend();
    publish = backend.publish;
    announcer = new ChangeAnnouncer({ emit: (signal) => sent.push(signal) }, backend, clock, log);
  });
  afterEach(() => announcer.stop());

  const members = () => sent.map(({ member }) => member);
  const sizeOf = (signal: OutgoingSignal | undefined) =>
    JSON.stringify(signal?.body, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value)).length;

  it('come at most a few times a second: the first one at once, the last value always', async () => {
    for (let tick = 0; tick <= 100; tick += 1) {
      publish(idleReport({ status: `${tick} %` }));
      await clock.advance(10);
    }
    await clock.advance(250);
    expect(sent.length).toBeLessThanOrEqual(6);
    expect(sent[0]?.body[1]).toMatchObject({ Status: { value: '0 %' } });
    expect(sent.at(-1)?.body[1]).toMatchObject({ Status: { value: '100 %' } });
  });

  it('stay small while a release of a thousand images is pulled', async () => {
    const [bundle = expect.unreachable()] = sampleReport().bundles;
    const references = Array.from(
      { length: 1_000 },
      (_, at) => `quay.io/openshift/image-${at}@sha256:${'0'.repeat(64)}`,
    );
    const rejected = references.map((path) => ({ medium: 'sdb1', path, reason: { code: 'x', message: path } }));
    const at = (present: number) =>
      idleReport({
        status: `${present}/1000 images`,
        operation: 'preloading',
        bundles: [{ ...bundle, phase: 'preloading', images: { total: 1_000, present, pinned: present } }],
        unclaimed: [{ references: references.slice(present) }],
        rejected: rejected.slice(present),
        progress: { doneBytes: present, totalBytes: 1_000 },
      });
    publish(at(0));
    await clock.advance(250);
    sent = [];
    for (let present = 1; present <= 20; present += 1) {
      publish(at(present));
      await clock.advance(1_000);
    }
    expect(sent).toHaveLength(40);
    expect(Math.max(...sent.map(sizeOf))).toBeLessThan(1_000);
    expect(sent.at(-1)?.body[2]).toEqual(['Rejected', 'Unclaimed']);
  });

  it('announce the end of an operation after the properties, with its result', async () => {
    publish(idleReport({ operation: 'preloading' }));
    await clock.advance(250);
    publish(idleReport({ operation: 'activating' }));
    publish(idleReport({ operation: 'idle' }));
    await clock.advance(250);
    expect(members()).toEqual(['PropertiesChanged', 'PropertiesChanged', 'Completed']);
    expect(sent.at(-1)?.body).toEqual([0]);
    publish(idleReport({ operation: 'verifying' }));
    publish(idleReport({ operation: 'idle', rejected: sampleReport().rejected }));
    await clock.advance(250);
    expect(members().slice(3)).toEqual(['PropertiesChanged', 'Completed']);
    expect(sent.at(-1)?.body).toEqual([1]);
  });

  it('send nothing without a change, and nothing after the end', async () => {
    publish(idleReport());
    await clock.advance(250);
    expect(sent).toEqual([]);
    publish(idleReport({ status: 'late' }));
    announcer.stop();
    await clock.advance(250);
    expect(sent).toEqual([]);
    expect(log.lines).toEqual([]);
  });
});
