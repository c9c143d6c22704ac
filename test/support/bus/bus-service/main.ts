/**
 * The D-Bus service of the daemon over an idle backend, as a process of its own: `node main.cjs
 * ADDRESS`.
 */
import { ApiService } from '../../../../src/api/service.ts';
import { SystemBus } from '../../../../src/host/bus/system-bus.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { createRecordingLog } from '../../recording-log.ts';
import { fakeBackend } from '../fake-backend.ts';

const log = createRecordingLog();
const bus = new SystemBus({ clock: systemClock, log, address: process.argv[2] ?? '' });
await bus.start(new AbortController().signal);
new ApiService(bus, bus, fakeBackend(), systemClock, log);
