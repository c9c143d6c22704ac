import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createDaemon } from '../../src/app/daemon/daemon.ts';
import type { BundleReader } from '../../src/bundle/read/bundle-reader.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import { SystemBus } from '../../src/host/bus/system-bus.ts';
import { bootTime, goArch, nodeFacts } from '../../src/host/node-facts.ts';
import { SystemdManager } from '../../src/host/systemd-manager.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { createRecordingLog } from '../support/recording-log.ts';
import { serveParent } from './child.ts';
import { createStepWatch, type StepTimes } from './preload/step-times.ts';

/** What a daemon tells that is looked at from the inside. */
export interface DaemonTold {
  readonly status: string;
  /** Bytes of blobs read from the medium. */
  readonly mediumBytes: number;
  /** How late the event loop was since the medium was loaded. */
  readonly lateMs: { readonly p50: number; readonly p999: number; readonly max: number };
  /** How often the runtime was observed (that is one ListImages) since the start. */
  readonly observations: number;
  /** When each step of the preload was over. */
  readonly steps: StepTimes;
}

/** How often the loop is looked at; its delay is what passes beyond that. */
const RESOLUTION_MS = 2;

/**
 * The daemon without its notifications and D-Bus interface, composed as `main.ts` does, with what
 * can't be seen from outside: the delay of its event loop, and the bytes that it asks of the
 * medium. The first question makes the bundle at `load` a medium, unless `load` is empty.
 */
export async function runDaemonChild(config: string, load: string): Promise<void> {
  const stop = new AbortController();
  const log = createRecordingLog();
  const bus = new SystemBus({ clock: systemClock, log, env: process.env });
  const manager = new SystemdManager(bus);
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  const stepWatch = createStepWatch();
  let status = '';
  let mediumBytes = 0;
  let observations = 0;
  const tell = (): DaemonTold => {
    const late = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
    const lateMs = { p50: late(delay.percentile(50)), p999: late(delay.percentile(99.9)), max: late(delay.max) };
    return { status, mediumBytes, lateMs, observations, steps: stepWatch.times };
  };
  const daemon = await createDaemon(
    {
      settings: await loadSettings({ fragments: [{ file: config, required: true }] }, stop.signal),
      log,
      clock: systemClock,
      notifier: {
        ready: () => serveParent(tell),
        status: () => undefined,
        reloading: () => undefined,
        stopping: () => undefined,
      },
      onStatus: (report) => {
        status = report.status;
        stepWatch.report(report);
      },
      units: manager,
      providers: [],
      node: { arch: goArch(), clockSynchronised: async () => false, facts: () => nodeFacts(), boot: () => bootTime() },
      watchBundle: ({ reader }) => {
        const both = counted(reader, (bytes) => {
          mediumBytes += bytes;
        });
        return { reader: both, blobs: both };
      },
      watchRuntime: (runtime) => {
        const watched = stepWatch.runtime(runtime);
        const observe: typeof watched.observe = (signal) => {
          observations += 1;
          return watched.observe(signal);
        };
        return { ...watched, observe };
      },
    },
    stop.signal,
  );
  daemon.media.onChange(() => stepWatch.media(daemon.media.list()));
  await bus.start(stop.signal);
  process.once('SIGTERM', () => stop.abort());
  process.once('message', () => {
    delay.enable();
    if (load !== '') void daemon.media.load(load, stop.signal);
  });
  await daemon.run(stop.signal);
  bus.close();
  process.exit(0);
}

function counted(reader: BundleReader, read: (bytes: number) => void): BundleReader {
  return {
    ...reader,
    async *read(digest, startByte, signal) {
      for await (const chunk of reader.read(digest, startByte, signal)) {
        read(chunk.length);
        yield chunk;
      }
    },
  };
}
