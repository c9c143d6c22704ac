import { expect } from 'vitest';
import type { ApiBackend } from '../../../src/api/backend.ts';
import { createApiService } from '../../../src/api/service.ts';
import { createSystemBus } from '../../../src/dbus/system-bus.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { eventually } from '../eventually.ts';
import { createRecordingLog } from '../recording-log.ts';
import { type CommandRun, runCommand } from '../run-command.ts';
import { startPrivateBus } from './private-bus.ts';

/** The D-Bus service over a backend of the test's own, on a private bus. */
export interface ApiOnBus {
  /** What `DBUS_SYSTEM_BUS_ADDRESS` must be for a command to reach it. */
  readonly address: string;
  /** Runs one command line that talks to it. */
  run(...args: readonly string[]): Promise<CommandRun>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Starts it, and waits until it answers. What `methods` leave out is never asked for. Needs `have('dbus-daemon')`. */
export async function startApiOnBus(methods: Partial<ApiBackend>): Promise<ApiOnBus> {
  const bus = await startPrivateBus();
  const log = createRecordingLog();
  const system = createSystemBus({ clock: systemClock, log, address: bus.address });
  const backend = { properties: () => IDLE, status: async () => ({}), onChange: () => () => undefined, ...methods };
  const service = createApiService({ bus: system, backend: backend as ApiBackend, log });
  await system.start(new AbortController().signal);
  const run = (...args: readonly string[]) =>
    runCommand(args, { env: { DBUS_SYSTEM_BUS_ADDRESS: bus.address }, signal: AbortSignal.timeout(30_000) });
  await eventually(async () => expect((await run('status', '--json')).exitCode).toBe(0));
  return {
    address: bus.address,
    run,
    [Symbol.asyncDispose]: async () => {
      await service.dispose();
      system.close();
      await bus[Symbol.asyncDispose]();
    },
  };
}

const IDLE: ReturnType<ApiBackend['properties']> = {
  status: 'Idle.',
  operation: 'idle',
  progress: { percentage: 100, message: '', depth: 0 },
  lastError: '',
  version: '0.1.0',
};
