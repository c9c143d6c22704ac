import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { SystemBus } from '../../dbus/system-bus.ts';
import type { HookFailure } from '../../domain/state/hook.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { HookRunner } from '../../ports/hooks.ts';
import { createJobWaiter, type JobWaiter } from './unit-events.ts';
import { asUnitError, loadedUnitProperty, MANAGER } from './unit-object.ts';

export interface HookRunnerDependencies {
  readonly bus: SystemBus;
  /** Of the environment files: `/run/stickpin/hooks`. */
  readonly folder: string;
}

interface Runner extends HookRunnerDependencies {
  readonly jobOf: JobWaiter;
}

/** org.freedesktop.systemd1(5). */
export function createHookRunner(deps: HookRunnerDependencies): HookRunner {
  const runner: Runner = { ...deps, jobOf: createJobWaiter(deps.bus) };
  return { run: (unit, environment, signal) => run(runner, unit, environment, signal) };
}

async function run(
  runner: Runner,
  unit: string,
  environment: string,
  signal: AbortSignal,
): Promise<HookFailure | undefined> {
  const path = join(runner.folder, `${unit}.env`);
  const property = (name: string) => loadedUnitProperty(runner.bus, unit, 'Unit', name, signal);
  const load = await property('LoadState');
  if (load === 'not-found') return { kind: 'absent' };
  if (load !== 'loaded') return { kind: 'not-loaded', state: String(load) };
  // A starting unit has read another file: it must end before this file is replaced.
  if ((await property('ActiveState')) === 'activating' && !(await isWritten(path, environment))) {
    await start(runner, unit, signal);
  }
  const state = await property('ActiveState');
  if (state === 'active' || state === 'reloading') return { kind: 'active' };
  await write(runner.folder, path, environment, signal);
  const job = await start(runner, unit, signal);
  if (job === 'done' || job === 'skipped') return undefined;
  return { kind: 'ended', job, ...(await resultOf(runner, unit, signal)) };
}

/** Of a new job, or of the one that already starts the unit. */
async function start({ bus, jobOf }: Runner, unit: string, signal: AbortSignal): Promise<string> {
  const doing = 'Starting';
  try {
    const call = () => bus.call({ ...MANAGER, member: 'StartUnit', signature: 'ss', body: [unit, 'replace'] }, signal);
    return await jobOf(doing, unit, call, signal);
  } catch (error) {
    throw asUnitError(doing, unit, error);
  }
}

/** The service's own result. A unit that is not in memory has none. */
async function resultOf(
  { bus }: Runner,
  unit: string,
  signal: AbortSignal,
): Promise<{ readonly result?: string; readonly status?: number }> {
  const property = (name: string) => loadedUnitProperty(bus, unit, 'Service', name, signal);
  try {
    const [result, status] = await Promise.all([property('Result'), property('ExecMainStatus')]);
    return {
      ...(typeof result === 'string' && result !== 'success' && { result }),
      ...(typeof status === 'number' && status !== 0 && { status }),
    };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AppError) return {};
    throw error;
  }
}

/** An unreadable file is written again. */
async function isWritten(path: string, environment: string): Promise<boolean> {
  return (await readIfPresent(path).catch(() => undefined)) === environment;
}

async function write(folder: string, path: string, environment: string, signal: AbortSignal): Promise<void> {
  try {
    // Only systemd reads it, as root.
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await replaceFile({ path }, environment, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw new AppError({
      code: 'host/hook-file',
      message: `${path} can't be written: ${reasonOf(error)}; see that ${folder} is a folder that root may write`,
      disposition: 'retry',
      cause: error,
    });
  }
}
