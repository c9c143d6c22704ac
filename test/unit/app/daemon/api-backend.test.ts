import { describe, expect, it } from 'vitest';
import { createApiBackend } from '../../../../src/app/daemon/api-backend.ts';
import type { Daemon } from '../../../../src/app/daemon/daemon.ts';

const { signal } = new AbortController();
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('the answer to a command', () => {
  it.each([
    ['activate', (backend: ReturnType<typeof createApiBackend>) => backend.activate('ocp', signal)],
    ['rollback', (backend: ReturnType<typeof createApiBackend>) => backend.rollback('', signal)],
    [
      'unpin',
      (backend: ReturnType<typeof createApiBackend>) =>
        backend.unpin('ocp', { removeImages: false, force: true }, signal),
    ],
    ['cancel', (backend: ReturnType<typeof createApiBackend>) => backend.cancel(signal)],
    ['approve', (backend: ReturnType<typeof createApiBackend>) => backend.approve('ocp', signal)],
    ['reject', (backend: ReturnType<typeof createApiBackend>) => backend.reject('ocp', signal)],
  ])('%s comes when what it has recorded is on the disk', async (name, call) => {
    let toDisk: () => void = () => undefined;
    const done: string[] = [];
    const command = (what: string) => () => void done.push(what);
    const [approve, reject] = [command('approve'), command('reject')];
    const engine = {
      ...{ activate: command('activate'), rollback: command('rollback'), unpin: async () => command('unpin')() },
      ...{ cancel: command('cancel'), verdicts: { approve, reject } },
      settled: () =>
        new Promise<void>((resolve) => {
          toDisk = resolve;
        }),
    };
    const backend = createApiBackend(() => ({ engine }) as unknown as Daemon);
    let isAnswered = false;
    const answer = Promise.resolve(call(backend)).then(() => {
      isAnswered = true;
    });
    await turn();
    expect([done, isAnswered]).toEqual([[name], false]);
    toDisk();
    await answer;
    expect(isAnswered).toBe(true);
  });
});
