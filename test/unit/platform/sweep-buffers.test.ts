import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { createBufferSweep } from '../../../src/platform/sweep-buffers.ts';

it('frees old buffers after each 4 MiB', () => {
  let sweeps = 0;
  const sweep = createBufferSweep(() => {
    sweeps += 1;
  });
  for (let chunk = 0; chunk < 2 * 64 + 63; chunk += 1) sweep(64 * 1024);
  expect(sweeps).toBe(2);
});

it('is switched on by the unit that passes bytes on', () => {
  expect(readFileSync('systemd/stickpin-fleet.service', 'utf8')).toMatch(/^ExecStart=\S+ --expose-gc /m);
});
