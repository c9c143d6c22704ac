import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serviceGroup } from './service-group.ts';

/** Each writes as much, has it written to the disk, and begins anew. */
const WRITERS = 2;
const FILE_MIB = 256;

/**
 * Does `work` while others write to the disk of the temporary folder all the time, which is where the daemon and the runtimes of the bench write. The
 * writers share the processors as a service of their own.
 */
export async function onBusyDisk<T>(work: () => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const group = serviceGroup('writers');
  const writers = Array.from({ length: WRITERS }, (_none, at) => {
    const write = `dd if=/dev/zero of=${folder}/${at} bs=1M count=${FILE_MIB} conv=fsync status=none`;
    // It waits for a line: what it starts before it is in the group would not be in the group.
    const child = spawn('sh', ['-c', `read -r line; while ${write}; do :; done`], {
      detached: true,
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    if (child.pid !== undefined) group.enter(child.pid);
    child.stdin.end('\n');
    return { child, ended: once(child, 'exit') };
  });
  try {
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
