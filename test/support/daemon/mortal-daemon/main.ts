/**
 * The daemon as a process of its own that kills itself at one point of its work. Started by
 * `startMortalDaemon()` with an order as its argument.
 */
import { once } from 'node:events';
import { createDaemon, type Daemon } from '../../../../src/app/daemon/daemon.ts';
import type { BundleReader } from '../../../../src/bundle/read/bundle-reader.ts';
import { createLog } from '../../../../src/host/log.ts';
import { bootTime, goArch, nodeFacts } from '../../../../src/host/node-facts.ts';
import type { BundleAccess } from '../../../../src/media/media-provider.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import { silentNotifier } from '../../silent-notifier.ts';
import type { MortalCommand, MortalOrder, Point } from './order.ts';

const order = JSON.parse(process.argv[2] ?? '') as MortalOrder;

/** SIGKILL to oneself is delivered before the call returns: not one more statement is run. */
function pass(point: Point): void {
  if (point === order.dieAt) process.kill(process.pid, 'SIGKILL');
}

function watchMortalBundle({ reader }: BundleAccess): BundleAccess {
  const mortal: BundleReader = {
    ...reader,
    readFile: async (...args) => {
      const bytes = await reader.readFile(...args);
      pass('bundle-being-read');
      return bytes;
    },
    async *read(digest, startByte, signal) {
      for await (const chunk of reader.read(digest, startByte, signal)) {
        // In two, so that something is under way and something is not.
        const half = Math.ceil(chunk.length / 2);
        yield chunk.subarray(0, half);
        if (order.layers?.includes(digest)) pass('layer-begun');
        if (order.held?.includes(digest)) await once(signal, 'abort');
        signal.throwIfAborted();
        yield chunk.subarray(half);
      }
    },
  };
  return { reader: mortal, blobs: mortal };
}

function watchMortal(runtime: RuntimeAdapter): RuntimeAdapter {
  return {
    ...runtime,
    pull: async (reference, signal) => {
      await runtime.pull(reference, signal);
      pass(reference.includes('@') ? 'image-pulled' : 'tag-pulled');
    },
  };
}

async function obey(command: MortalCommand, { engine, media }: Daemon, signal: AbortSignal): Promise<void> {
  switch (command.kind) {
    case 'cancel':
      return engine.commands.cancel();
    case 'activate':
      return engine.commands.activate({ bundle: command.bundle });
    case 'rescan':
      await media.rescan(signal);
      return engine.kick();
  }
}

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
// The test is gone.
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
const daemon = await createDaemon(
  {
    settings: order.settings,
    log: await createLog({ env: process.env }),
    clock: systemClock,
    node: { arch: goArch(), clockSynchronised: async () => false, facts: () => nodeFacts(), boot: () => bootTime() },
    notifier: silentNotifier,
    units: {
      reloadUnit: async () => void process.kill(order.crioPid, 'SIGHUP'),
      onUnitChange: () => () => undefined,
    },
    hookRunner: { run: async () => undefined },
    providers: [],
    watchBundle: watchMortalBundle,
    watchRuntime: watchMortal,
    onStatus: (report) => void process.send?.(report),
    afterEffect: (effect) => pass(effect.kind === 'start' ? `start-${effect.task.kind}` : effect.kind),
  },
  stop.signal,
);
process.on('message', (command: MortalCommand) => void obey(command, daemon, stop.signal));
await daemon.run(stop.signal);
process.disconnect();
