import { describe, expect, it } from 'vitest';
import { WalSync } from '../../../../src/store/database/recording.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A disk that writes when it is told to. */
function createDisk() {
  const waiting: ((error?: Error) => void)[] = [];
  return {
    sync: () =>
      new Promise<void>((resolve, reject) => {
        waiting.push((error) => (error === undefined ? resolve() : reject(error)));
      }),
    runs: () => waiting.length,
    async write(error?: Error) {
      await turn();
      waiting.shift()?.(error);
      await turn();
    },
  };
}

function watched(settled: Promise<void>) {
  const seen: { end: unknown } = { end: 'waits' };
  settled.then(
    () => {
      seen.end = 'settled';
    },
    (error: Error) => {
      seen.end = error.message;
    },
  );
  return seen;
}

describe('the sync of a write-ahead log', () => {
  it('starts with a sync for changes of an earlier process', async () => {
    const disk = createDisk();
    const first = watched(new WalSync(disk.sync).settled());
    await turn();
    expect([first.end, disk.runs()]).toEqual(['waits', 1]);
    await disk.write();
    expect([first.end, disk.runs()]).toEqual(['settled', 0]);
  });

  it('covers a commit once a run has ended that began after it', async () => {
    const disk = createDisk();
    const wal = new WalSync(disk.sync);
    await turn();
    wal.committed();
    const seen = watched(wal.settled());
    await disk.write();
    expect(seen.end).toBe('waits');
    await disk.write();
    expect(seen.end).toBe('settled');
    const again = watched(wal.settled());
    await turn();
    expect([again.end, disk.runs()]).toEqual(['settled', 0]);
  });

  it('that failed once is never taken for done, whatever a later sync says', async () => {
    const disk = createDisk();
    const wal = new WalSync(disk.sync);
    await disk.write(new Error('EIO'));
    wal.committed();
    const seen = watched(wal.settled());
    await disk.write();
    expect(seen.end).toBe('EIO');
    await expect(wal.settled()).rejects.toThrow('EIO');
  });
});
