import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sized } from '../size.ts';
import { unitGroup } from './service-group.ts';

/** Each writes as much, has it written to the disk, and begins anew. */
const WRITERS = 2;
const FILE_MIB = sized(256, 16);

/**
 * Does `work` while others write to the disk of the temporary folder all the time, which is where
 * the daemon and the runtimes of the bench write. The writers share the processors as pods do: as a
 * slice beside that of the services.
 */
export async function onBusyDisk<T>(work: () => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const group = unitGroup('stickpin-bench-pods');
  const writers: { child: ChildProcess; ended: Promise<unknown> }[] = [];
  try {
    for (let at = 0; at < WRITERS; at += 1) {
      const write = `dd if=/dev/zero of=${folder}/${at} bs=1M count=${FILE_MIB} conv=fsync status=none`;
      // It waits for a line: what it starts before it is in the group would not be in the group.
      const child = spawn('sh', ['-c', `read -r line && while ${write}; do :; done`], {
        detached: true,
        stdio: ['pipe', 'ignore', 'inherit'],
      });
      writers.push({ child, ended: once(child, 'exit') });
      if (child.pid !== undefined) group.enter(child.pid);
      child.stdin.end('\n');
    }
    return await work();
  } finally {
    for (const { child, ended } of writers) {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
      await ended;
    }
    await group.release();
    rmSync(folder, { recursive: true, force: true });
  }
}
