/** The D-Bus service of the daemon over an idle backend, as a process of its own: `node main.cjs ADDRESS`. */
import type { ApiBackend } from '../../../../src/api/backend.ts';
import { createApiService } from '../../../../src/api/service.ts';
import { createSystemBus } from '../../../../src/dbus/system-bus.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { createRecordingLog } from '../../recording-log.ts';

const nothing = async (): Promise<void> => undefined;
const text = async (): Promise<string> => '';
const progress = { percentage: 100, message: '', depth: 0 };
const backend: ApiBackend = {
  properties: () => ({ status: 'Idle.', operation: 'idle', progress, lastError: '', version: '0.1.0' }),
  status: async () => ({ status: 'Idle.' }),
  list: async () => ({ bundles: [] }),
  history: async () => [],
  activate: nothing,
  rollback: text,
  unpin: nothing,
  unpinUnclaimed: async () => '',
  approve: text,
  reject: text,
  restoreKey: text,
  cancel: nothing,
  rescan: nothing,
  load: text,
  onChange: () => () => undefined,
};

const log = createRecordingLog();
const bus = createSystemBus({ clock: systemClock, log, address: process.argv[2] ?? '' });
await bus.start(new AbortController().signal);
createApiService({ bus, backend, log });
