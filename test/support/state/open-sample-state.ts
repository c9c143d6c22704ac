import { dirname, join } from 'node:path';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import type { Log } from '../../../src/platform/log.ts';
import { type OpenState, openState } from '../../../src/store/database/open-state.ts';
import { NOON } from '../daemon/scenario.ts';
import { createRecordingLog } from '../recording-log.ts';

/** Opens the state database at `path` at noon; its standby copies go into `standby` beside it. */
export function openSampleState(path: string, log: Log = createRecordingLog()): OpenState {
  return openState({ path, standbyDirectory: join(dirname(path), 'standby'), revive: reviveBundle, log, now: NOON });
}
