import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { HookFailure } from '../domain/state/hook.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { untilAborted } from '../platform/async/abort.ts';
import { readIfPresent, replaceFile } from '../platform/files/durable-file.ts';
import type { HookRunner } from '../ports/node.ts';
import type { SystemBus } from './bus/system-bus.ts';
import { busProperty, loadedUnitProperty, MANAGER, runJob } from './units.ts';

/** org.freedesktop.systemd1(5). */
export class SystemdHookRunner implements HookRunner {
  /** @param folder of the environment files: `/run/stickpin/hooks` */
  constructor(
    private readonly bus: SystemBus,
    private readonly folder: string,
  ) {}

  async run(unit: string, environment: string, signal: AbortSignal): Promise<HookFailure | undefined> {
    const path = join(this.folder, `${unit}.env`);
    const property = (name: string) => loadedUnitProperty(this.bus, unit, 'Unit', name, signal);
    const load = await property('LoadState');
    if (load === 'not-found') return { kind: 'absent' };
    if (load !== 'loaded') return { kind: 'not-loaded', state: String(load) };
    // A starting unit has read another file: it must end before this file is replaced.
    if ((await property('ActiveState')) === 'activating' && !(await isWritten(path, environment))) {
      await this.start(unit, signal);
    }
    const state = await property('ActiveState');
    if (state === 'active' || state === 'reloading') return { kind: 'active' };
    await write(this.folder, path, environment, signal);
    const job = await this.start(unit, signal);
    if (job === 'done' || job === 'skipped') return undefined;
    // A shutdown of the node ends a unit without result: it is started once more after the boot.
    if (await this.isShuttingDown(signal)) return untilAborted(new Promise<undefined>(() => undefined), signal);
    return { kind: 'ended', job, ...(await this.resultOf(unit, signal)) };
  }

  private async isShuttingDown(signal: AbortSignal): Promise<boolean> {
    const { destination, path, interface: iface } = MANAGER;
    try {
      return (await busProperty(this.bus, { destination, path, iface, name: 'SystemState' }, signal)) === 'stopping';
    } catch {
      signal.throwIfAborted();
      return false;
    }
  }

  /** @returns the result of a new job, or of the one that already starts the unit */
  private start(unit: string, signal: AbortSignal): Promise<string> {
    const request = { ...MANAGER, member: 'StartUnit', signature: 'ss', body: [unit, 'replace'] };
    return runJob(this.bus, 'Starting', unit, () => this.bus.call(request, signal), signal);
  }

  /** The result of the service. A unit that is not in memory has none. */
  private async resultOf(
    unit: string,
    signal: AbortSignal,
  ): Promise<{ readonly result?: string; readonly status?: number }> {
    const property = (name: string) => loadedUnitProperty(this.bus, unit, 'Service', name, signal);
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
}

/** An unreadable file is written again. */
async function isWritten(path: string, environment: string): Promise<boolean> {
  return (await readIfPresent(path).catch(() => undefined)) === environment;
}

async function write(folder: string, path: string, environment: string, signal: AbortSignal): Promise<void> {
  try {
    // Only systemd reads the folder, as root.
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
