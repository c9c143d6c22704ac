import type { ApiBackend, ApiProperties } from '../../api/backend.ts';
import type { StatusReport } from '../../domain/report/report.ts';
import { AppError } from '../../platform/app-error.ts';
import { VERSION } from '../../platform/version.ts';
import type { Daemon } from './daemon.ts';

/** The D-Bus service's view of the daemon; `published` is to be called with each new report. */
export interface PublishingBackend extends ApiBackend {
  published(report: StatusReport): void;
}

/** Lines of history that are answered at most. */
const SHOWN_EVENTS = 1_000;

/** A backend over a daemon that may still be on its way. */
export function createApiBackend(daemon: () => Daemon | undefined): PublishingBackend {
  const listeners = new Set<() => void>();
  let latest: StatusReport | undefined;
  const started = (): Daemon => {
    const running = daemon();
    if (running !== undefined) return running;
    throw new AppError({
      code: 'api/starting',
      message: 'The daemon is still starting; try again in a moment',
      disposition: 'retry',
    });
  };
  const report = async (): Promise<StatusReport> => {
    const current = started().engine.report() ?? latest;
    if (current !== undefined) return current;
    throw new AppError({
      code: 'api/starting',
      message: 'The daemon has not looked at anything yet; try again in a moment',
      disposition: 'retry',
    });
  };
  /** Who is told that something was done may pull the plug. */
  const settled = async <T>(act: (engine: Daemon['engine']) => T | Promise<T>): Promise<T> => {
    const { engine } = started();
    const done = await act(engine);
    await engine.settled();
    return done;
  };
  return {
    published: (next) => {
      latest = next;
      for (const listener of listeners) listener();
    },
    properties: () => propertiesOf(latest),
    status: report,
    list: async () => {
      const { bundles, notices, rejected, unclaimed } = await report();
      return { bundles, notices, rejected, unclaimed };
    },
    cancel: () => settled((engine) => engine.cancel()),
    activate: (bundle, _signal, options) => settled((engine) => engine.activate(bundle, options)),
    rollback: (stream) => settled((engine) => engine.rollback(stream === '' ? undefined : stream)),
    unpin: (bundle, options, signal) => settled((engine) => engine.unpin(bundle, options, signal)),
    unpinUnclaimed: (force) => settled((engine) => engine.unpinUnclaimed(force)),
    history: async (bundle) => started().engine.history(bundle === '' ? undefined : bundle, SHOWN_EVENTS),
    approve: (bundle) => settled((engine) => engine.verdicts.approve(bundle)),
    reject: (bundle) => settled((engine) => engine.verdicts.reject(bundle)),
    restoreKey: async (keyId, uid) => {
      const { restoreKey, engine } = started();
      const message = await restoreKey(keyId, uid);
      await engine.settled();
      return message;
    },
    rescan: async (signal) => {
      await started().media.rescan(signal);
      await settled((engine) => engine.resume());
    },
    load: (path, signal) => started().media.load(path, signal),
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

function propertiesOf(report: StatusReport | undefined): ApiProperties {
  if (report === undefined) {
    const status = 'Starting';
    const progress = { percentage: 0, message: status, depth: 0 };
    return { status, operation: 'idle', progress, lastError: '', version: VERSION };
  }
  const { doneBytes, totalBytes } = report.progress;
  const percentage = totalBytes === 0 ? 100 : Math.min(100, Math.floor((100 * doneBytes) / totalBytes));
  const faulty = report.bundles.filter((bundle) => bundle.reason);
  const newest = faulty.findLast(({ reason }) => reason?.code !== 'engine/needs-copy') ?? faulty.at(-1);
  const fault = report.rejected.at(-1)?.reason ?? newest?.reason;
  return {
    status: report.status,
    operation: report.operation,
    progress: { percentage, message: report.status, depth: 0 },
    lastError: fault?.message ?? '',
    version: VERSION,
  };
}
