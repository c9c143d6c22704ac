import { configDefaults, defineConfig } from 'vitest/config';
import { longestFirst } from '../longest-first.ts';
import { harnessHasPassed } from './machine/harness-mark.ts';
import { machinesAtATime } from './machine/side-by-side.ts';
import { patienceMs } from './machine/until.ts';

/**
 * `STICKPIN_TEST_HARNESS=changed` leaves the harness's own tests out when they have passed on this
 * host as they are.
 */
const leavesOutHarness = process.env.STICKPIN_TEST_HARNESS === 'changed' && (await harnessHasPassed());
if (leavesOutHarness)
  process.stdout.write('test/e2e/machine.test.ts is left out: it has passed here with this harness\n');

const LongestFirst = longestFirst([
  'test/e2e/lifecycle.test.ts',
  'test/e2e/containerd-node.test.ts',
  'test/e2e/crio-node.test.ts',
  'test/e2e/packages.test.ts',
  'test/e2e/sysext.test.ts',
  'test/e2e/rpm.test.ts',
  'test/e2e/self-update.test.ts',
  'test/e2e/bookworm.test.ts',
  'test/e2e/selinux.test.ts',
  'test/e2e/cockpit.test.ts',
  'test/e2e/console.test.ts',
  'test/e2e/power-cut.test.ts',
  'test/e2e/crio-link.test.ts',
  'test/e2e/k3s.test.ts',
  'test/e2e/fleet.test.ts',
  'test/e2e/machine.test.ts',
  'test/e2e/damaged-sticks.test.ts',
  'test/e2e/update-rules.test.ts',
]);

/** Tests on a whole machine; software emulation, so the limits are generous. */
export default defineConfig({
  test: {
    name: 'e2e',
    include: ['test/e2e/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(leavesOutHarness ? ['test/e2e/machine.test.ts'] : [])],
    globalSetup: 'test/e2e/machine/product/saved-machines.ts',
    // Above all waits of a test.
    testTimeout: 3_600_000,
    hookTimeout: 1_200_000,
    expect: { poll: { timeout: patienceMs, interval: 1_000 } },
    fileParallelism: machinesAtATime > 1,
    maxWorkers: machinesAtATime,
    sequence: { concurrent: false, sequencer: LongestFirst },
  },
});
