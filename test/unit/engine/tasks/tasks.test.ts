import { describe, expect, it, vi } from 'vitest';
import { type TaskEnd, Tasks } from '../../../../src/engine/tasks/tasks.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';
import { eventually } from '../../../support/eventually.ts';

const activation = { kind: 'activate', bundleId: digestOf('bundle') } as const;
const pull = { kind: 'pull', bundleId: digestOf('bundle'), reference: 'quay.example.com/etcd' } as const;
const untilAborted = (signal: AbortSignal) =>
  new Promise<TaskEnd>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

describe('tasks', () => {
  it('runs a task once at a time, and reports its end after it is removed from the list', async () => {
    const seen: [string, TaskEnd, number][] = [];
    const tasks = new Tasks((task, end) => seen.push([task.kind, end, tasks.running().length]));
    const work = vi.fn(async (): Promise<TaskEnd> => 'pulled');
    tasks.start(pull, work);
    tasks.start({ ...pull }, work);
    expect(tasks.running()).toEqual([pull]);
    await eventually(() => expect(seen).toEqual([['pull', 'pulled', 0]]));
    expect(work).toHaveBeenCalledTimes(1);
    tasks.start(pull, work);
    await eventually(() => expect(seen).toHaveLength(2));
    expect(work).toHaveBeenCalledTimes(2);
  });

  it('reports the end of a failed task too, without an unhandled rejection', async () => {
    const onEnd = vi.fn();
    const tasks = new Tasks(onEnd);
    tasks.start(pull, async () => Promise.reject(new Error('no')));
    await eventually(() => expect(onEnd).toHaveBeenCalledExactlyOnceWith(pull, 'ended'));
    expect(tasks.running()).toEqual([]);
  });

  it('aborts all and waits until the last has ended', async () => {
    const tasks = new Tasks(() => undefined);
    tasks.start(pull, untilAborted);
    tasks.start(activation, untilAborted);
    expect(tasks.running()).toHaveLength(2);
    await tasks.cancelAll();
    expect(tasks.running()).toEqual([]);
    await tasks.cancelAll();
  });
});
