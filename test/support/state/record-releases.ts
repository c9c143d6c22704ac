/**
 * A process that records releases in the database at its first argument, from their adoption to
 * their line, and writes as a line of JSON which ones the mirror has.
 */
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { openState } from '../../../src/store/database/open-state.ts';
import { verified } from '../daemon/scenario.ts';

const [path = ''] = process.argv.slice(2);
const { signal } = new AbortController();
const { store } = openState({
  path,
  standbyDirectory: `${path}-standby`,
  revive: reviveBundle,
  log: silentLog,
  now: 0,
});
const event = (kind: string) => ({ at: 1, kind, message: kind });

async function mirrored(): Promise<void> {
  await store.mirror(signal);
  process.stdout.write(`${JSON.stringify(store.load().bundles.map(({ payload }) => payload.sequence))}\n`);
}

for (const sequence of [1, 2, 3]) {
  const images = { [`etcd-${sequence}`]: [`layer-${sequence}`] };
  const bundle = verified({ version: `4.13.${sequence}`, sequence, images });
  store.adopt(bundle, event('bundleVerified'));
  await mirrored();
  for (const { reference } of bundle.contents.images) store.setPulledByUs(reference, true);
  store.change(bundle.bundleId, { readyAt: 1, activatedAt: 1 }, event('bundleActivated'));
  await mirrored();
  const [first] = store.load().bundles;
  if (first !== undefined && first.bundleId !== bundle.bundleId) store.forget(first.bundleId, undefined);
  await mirrored();
}
// As a kill: nothing is closed.
process.exit();
