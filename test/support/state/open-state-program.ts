/**
 * A process that opens the state in the folder of its first argument as the daemon does, brings the
 * mirror to the disk, ends a round, and prints as JSON what it found.
 */
import { openNodeState } from '../../../src/app/daemon/node-state.ts';
import { defaultSettings } from '../../../src/domain/settings/settings.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { silentLog } from '../../../src/platform/log.ts';

const [folder = ''] = process.argv.slice(2);
const settings = {
  ...defaultSettings,
  paths: { ...defaultSettings.paths, state_dir: folder, run_dir: `${folder}-run` },
};
const state = await openNodeState(settings, { clock: systemClock, log: silentLog });
const { store } = state;
await store.mirror(new AbortController().signal);
await state.afterRound();
const found = {
  problems: state.problems.map(({ message }) => message),
  releases: store.load().bundles.map(({ payload, activatedAt }) => [payload.name, payload.version, activatedAt]),
  pins: state.pinLedger.load(),
  floors: [...state.floors.load().sequences],
  revoked: store.revocationRecord()?.revocations.map(({ keyId }) => keyId),
  hooks: [...state.hooks.load().keys()],
};
process.stdout.write(`${JSON.stringify(found)}\n`);
state.close();
