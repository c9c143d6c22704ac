import { buildOnce, isBuilt } from '../../support/rootfs/build-cache.ts';
import { execute } from '../../support/rootfs/execute.ts';
import { sourceSums } from '../../support/source-sums.ts';
import { emulator } from './qemu/emulator.ts';

const kind = 'harness';
/** The harness, its own tests, and what builds the guest's root folder. */
const sources = ['test/e2e/machine', 'test/e2e/machine.test.ts', 'test/support/rootfs'];

/**
 * Whether the harness, with exactly these sources and this QEMU, has passed its own tests on this
 * host before.
 */
export async function harnessHasPassed(): Promise<boolean> {
  return isBuilt(kind, await recipe());
}

/** Notes in the cache that all of them passed. */
export async function markHarnessAsPassed(): Promise<void> {
  await buildOnce(kind, await recipe(), async () => undefined);
}

async function recipe(): Promise<unknown> {
  const files = await sourceSums(sources);
  return { files, node: process.version, qemu: await execute([...(await emulator()), '--version']) };
}
