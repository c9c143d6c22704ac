import type { CommandAdapters } from '../../cli/context/command-adapters.ts';
import { machinePaths, queryUdev } from '../../media/device/device.ts';
import { readStickFacts } from '../../media/device/stick-facts.ts';
import { examineNode } from '../doctor/examine-node.ts';
import { fleetKeyLine, watchFleet } from '../fleet/watch-fleet.ts';
import { rehearseBundle } from '../rehearsal/rehearse-bundle.ts';
import { packReport } from './pack-report.ts';
import { serveBundle } from './serve-bundle.ts';
import { createStoredState } from './stored-state.ts';
import { supportSecrets, supportSources } from './support-facts.ts';

export const commandAdapters: CommandAdapters = {
  storedState: createStoredState(),
  supportSources,
  supportSecrets,
  packReport,
  serveBundle,
  rehearseBundle,
  examineNode,
  watchFleet,
  fleetKeyLine,
  readStick: (path, signal) => readStickFacts(path, queryUdev, { ...machinePaths, swaps: '/proc/swaps' }, signal),
};
