import { describe, expect, it } from 'vitest';
import { Meter } from '../../../src/registry/meter.ts';
import { digestOf } from '../../support/daemon/scenario.ts';

const [a, b, c] = [digestOf('a'), digestOf('b'), digestOf('c')];

describe('meter', () => {
  it('sums up the transfers of some blobs and of all', () => {
    const meter = new Meter();
    const first = meter.open(a);
    const second = meter.open(b);
    const other = meter.open(c);
    first.sent(10, 10);
    first.awaitsRuntime(1);
    second.sent(5, 105);
    second.awaitsMedium(1);
    other.sent(1, 1);
    expect(meter.flow([a, b])).toEqual({ sentBytes: 15, opened: 2, open: 2, awaitingMedium: 1, awaitingRuntime: 1 });
    expect([meter.totalBytes(), meter.waiting(), meter.sentBytes().get(b)]).toEqual([16, 1, 105]);
    first.awaitsRuntime(-1);
    second.awaitsMedium(-1);
    first.close();
    second.close();
    expect(meter.flow([a, b])).toEqual({ sentBytes: 15, opened: 2, open: 0, awaitingMedium: 0, awaitingRuntime: 0 });
    // A blob that is sent once more moves bytes, though it gets no further.
    meter.open(a).sent(10, 10);
    expect(meter.flow([a]).sentBytes).toBe(20);
    expect(meter.sentBytes().get(a)).toBe(10);
  });

  it('counts a blob as open while it is looked for, and keeps nothing of one that was never sent', () => {
    const meter = new Meter();
    const sent = meter.open(a);
    sent.damaged();
    sent.close();
    const ends = [meter.lookUp(a), meter.lookUp(b), meter.lookUp(b)];
    expect([meter.flow([a]), meter.flow([b])]).toMatchObject([
      { open: 1, opened: 1 },
      { open: 2, opened: 0 },
    ]);
    expect([...meter.damaged()]).toEqual([a]);
    for (const end of ends) end();
    expect([meter.flow([a]), meter.flow([b])]).toMatchObject([
      { open: 0, opened: 1 },
      { open: 0, opened: 0 },
    ]);
  });

  it('reports each request for a manifest until it is unsubscribed', () => {
    const meter = new Meter();
    const told: string[] = [];
    const stop = meter.onManifestRequest((path, reference) => told.push(`${path} ${reference}`));
    meter.manifestRequested('quay.io/x', a, true);
    meter.manifestRequested('quay.io/x', 'v1', false);
    stop();
    meter.manifestRequested('quay.io/x', 'v2', true);
    expect(told).toEqual([`quay.io/x ${a}`, 'quay.io/x v1']);
  });

  it('counts requests for manifests, and apart from them those whose answer was the manifest', () => {
    const meter = new Meter();
    meter.manifestRequested('quay.io/x', a, false);
    expect([meter.manifestRequests('quay.io/x', a), meter.manifestsSent('quay.io/x', a)]).toEqual([1, 0]);
    meter.manifestRequested('quay.io/x', a, true);
    expect([meter.manifestRequests('quay.io/x', a), meter.manifestsSent('quay.io/x', a)]).toEqual([2, 1]);
    expect(meter.manifestsSent('quay.io/x', 'v1')).toBe(0);
  });

  it('knows which blobs were damaged when they were last sent', () => {
    const meter = new Meter();
    const first = meter.open(a);
    first.damaged();
    first.close();
    expect([...meter.damaged()]).toEqual([a]);
    meter.open(b).close();
    expect([...meter.damaged()]).toEqual([a]);
    meter.open(a).close();
    expect([...meter.damaged()]).toEqual([]);
    meter.open(a).damaged();
    meter.forget(a);
    expect([...meter.damaged()]).toEqual([]);
  });

  it('forgets the progress of a blob, but not open transfers', () => {
    const meter = new Meter();
    const open = meter.open(a);
    open.sent(3, 3);
    meter.forget(a);
    expect(meter.sentBytes().has(a)).toBe(false);
    expect(meter.flow([a]).open).toBe(1);
    open.close();
    meter.forget(a);
    expect(meter.flow([a])).toEqual(meter.flow([b]));
    expect(meter.totalBytes()).toBe(3);
  });

  it('counts requests for unknown blobs by repository', () => {
    const meter = new Meter();
    meter.unknownRequested('quay.example.com/ocp/etcd', a);
    meter.unknownRequested('quay.example.com/ocp/etcd', b);
    expect(meter.unknownRequests('quay.example.com/ocp/etcd')).toEqual({ count: 2, last: b });
    expect(meter.unknownRequests('quay.example.com/ocp/api')).toEqual({ count: 0, last: undefined });
  });
});
