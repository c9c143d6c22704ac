import { defineConfig } from 'vitest/config';
import { longestFirst } from './longest-first.ts';

const LongestFirst = longestFirst([
  'test/integration/daemon/release/scenarios.test.ts',
  'test/integration/daemon/state/kill-at-random.test.ts',
  'test/integration/daemon/preload/interrupted-pulls.test.ts',
  'test/integration/daemon/trust/trust.test.ts',
  'test/integration/daemon/state/kill-after-effects.test.ts',
  'test/integration/daemon/state/damaged-state.test.ts',
  'test/integration/daemon/runtime/sources-crio.test.ts',
  'test/integration/daemon/runtime/mend-crio.test.ts',
  'test/integration/daemon/state/lost-state.test.ts',
  'test/integration/daemon/preload/activation-space.test.ts',
  'test/integration/daemon/release/lifecycle.test.ts',
]);

/**
 * Unit tests mirror src/; integration tests use real components on this host. The machine tests
 * have their own configuration.
 */
export default defineConfig({
  test: {
    globalSetup: 'test/support/requirements.ts',
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 180_000, isolate: false } },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          // Waits end after 60 s each; a machine may be busy with other tests.
          testTimeout: 240_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
