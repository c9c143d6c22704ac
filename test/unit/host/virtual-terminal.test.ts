import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { writeWithoutWait } from '../../../src/host/virtual-terminal.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

it('drops what a terminal does not take now', () => {
  const path = join(temporaryFolder(), 'fifo');
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  try {
    expect(writeWithoutWait(fd, 'a…b')).toBe(true);
    expect(writeWithoutWait(fd, 'x'.repeat(4 * 1024 * 1024))).toBe(false);
    expect(writeWithoutWait(fd, 'y'.repeat(4096))).toBe(false);
  } finally {
    closeSync(fd);
  }
});
