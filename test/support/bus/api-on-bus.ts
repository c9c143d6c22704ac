import { expect } from 'vitest';
import type { ApiMethods } from '../../../src/api/backend.ts';
import { ApiService } from '../../../src/api/service.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { eventually } from '../eventually.ts';
import { createRecordingLog } from '../recording-log.ts';
import { type CommandRun, runCommand } from '../run-command.ts';
import { fakeBackend } from './fake-backend.ts';
import { startPrivateBus } from './private-bus.ts';

/** The D-Bus service over a backend of the test's own, on a private bus. */
export interface ApiOnBus {
  /** What `DBUS_SYSTEM_BUS_ADDRESS` must be for a command to reach it. */
  readonly address: string;
  /** Runs one command line that talks to it. */
  run(...args: readonly string[]): Promise<CommandRun>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts it, and waits until it answers. What is left out is as in {@link fakeBackend}; `policies`
 * is as in {@link startPrivateBus}. Needs `have('dbus-daemon')`.
 */
export async function startApiOnBus(
  methods: Partial<ApiMethods>,
  report?: () => StatusReport | undefined,
  policies?: readonly string[],
): Promise<ApiOnBus> {
  const bus = await startPrivateBus(policies);
  const log = createRecordingLog();
  const system = new SystemBus({ clock: systemClock, log, address: bus.address });
  const lookups = new SystemBus({ clock: systemClock, log, address: bus.address });
  const service = new ApiService(system, lookups, fakeBackend(methods, report), systemClock, log);
  await lookups.start(new AbortController().signal);
  await system.start(new AbortController().signal);
  const run = (...args: readonly string[]) =>
    runCommand(args, { env: { DBUS_SYSTEM_BUS_ADDRESS: bus.address }, signal: AbortSignal.timeout(30_000) });
  await eventually(async () => expect((await run('history')).exitCode).toBe(0));
  return {
    address: bus.address,
    run,
    [Symbol.asyncDispose]: async () => {
      await service.dispose();
      system.close();
      lookups.close();
      await bus[Symbol.asyncDispose]();
    },
  };
}
