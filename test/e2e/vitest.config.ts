import { defineConfig } from 'vitest/config';

/** Tests on a whole machine: one QEMU guest at a time, software emulation, so the limits are generous. */
export default defineConfig({
  test: {
    name: 'e2e',
    include: ['test/e2e/**/*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 600_000,
    fileParallelism: false,
    sequence: { concurrent: false },
  },
});
