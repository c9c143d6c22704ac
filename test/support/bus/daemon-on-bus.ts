import type { ApiBackend } from '../../../src/api/backend.ts';
import { ApiService } from '../../../src/api/service.ts';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { createRecordingLog } from '../recording-log.ts';

/** Serves `backend` on a bus, as the daemon does, until the returned function is called. */
export async function startDaemonOnBus(address: string, backend: ApiBackend): Promise<() => Promise<void>> {
  const log = createRecordingLog();
  const bus = new SystemBus({ clock: systemClock, log, address });
  const service = new ApiService(bus, bus, backend, systemClock, log);
  await bus.start(new AbortController().signal);
  return async () => {
    await service.dispose();
    bus.close();
  };
}
