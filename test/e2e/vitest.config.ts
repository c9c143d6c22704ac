import { defineConfig } from 'vitest/config';

/** How many QEMU guests run at a time, each for a test file of its own. More than one wants two processors that have nothing else to do. */
const machines = Number(process.env.STICKPIN_TEST_MACHINES ?? 1);

/** Tests on a whole machine; software emulation, so the limits are generous. */
export default defineConfig({
  test: {
    name: 'e2e',
    include: ['test/e2e/**/*.test.ts'],
    globalSetup: 'test/e2e/machine/product/archive.ts',
    testTimeout: 600_000,
    hookTimeout: 600_000,
    fileParallelism: machines > 1,
    maxWorkers: machines,
    sequence: { concurrent: false },
  },
});
