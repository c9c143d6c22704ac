/**
 * `npm run demo`: a key, a bundle and a "stick" (a directory), then the real daemon with the
 * embedded runtime, in the foreground and without root. It ends with the table of images, all
 * pinned.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDaemon } from '../../src/app/daemon/daemon.ts';
import { formatTable } from '../../src/cli/output/table.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import type { StatusReport } from '../../src/domain/report/status-schema.ts';
import type { Settings } from '../../src/domain/settings/settings.ts';
import { bootTime, goArch, nodeFacts } from '../../src/host/node-facts.ts';
import { systemClock } from '../../src/platform/clock.ts';
import type { Log } from '../../src/platform/log.ts';
import { formatBytes } from '../../src/platform/sizes.ts';
import type { UnitControl } from '../../src/ports/node.ts';
import { installKeys, makeSampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/bundles/sample-image.ts';
import { silentNotifier } from '../support/silent-notifier.ts';

const REGISTRY = 'registry.example.com/demo';
const MIB = 1024 * 1024;
const DEADLINE_MS = 60_000;

const print = (text: string) => process.stdout.write(`${text}\n`);

/** Six images over one base layer, some 120 MiB in all. */
function demoImages() {
  const base = sampleLayer({ seed: 'base', sizeBytes: 24 * MIB, files: 40 });
  const sizes = { etcd: 20, 'kube-apiserver': 24, 'kube-scheduler': 12, coredns: 10, 'ingress-router': 14, app: 16 };
  return Object.entries(sizes).map(([name, size]) => ({
    reference: `${REGISTRY}/${name}:4.13.7`,
    component: name,
    image: sampleImage({ seed: name, layers: [base, sampleLayer({ seed: name, sizeBytes: size * MIB, files: 20 })] }),
  }));
}

/** Resolves with the first report for which `isIt` holds. */
function awaitReport(
  subscribe: (listener: (report: StatusReport) => void) => void,
  isIt: (report: StatusReport) => boolean,
) {
  return new Promise<StatusReport>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the demo did not get there in time')), DEADLINE_MS);
    subscribe((report) => {
      if (!isIt(report)) return;
      clearTimeout(timer);
      resolve(report);
    });
  });
}

async function main(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'stickpin-demo-'));
  const controller = new AbortController();
  process.once('SIGINT', () => controller.abort());
  process.once('SIGTERM', () => controller.abort());
  try {
    await demo(root, controller);
  } finally {
    controller.abort();
    rmSync(root, { recursive: true, force: true });
  }
}

async function demo(root: string, controller: AbortController): Promise<void> {
  print('1. In the factory: a signing key, and a signed bundle of six images');
  const key = sampleKey('factory-2026');
  installKeys(join(root, 'keys.d'), [key]);
  mkdirSync(join(root, 'factory'));
  const bundle = await makeSampleBundle({
    dir: join(root, 'factory', 'stickpin'),
    name: 'ocp',
    version: '4.13.7',
    keys: [key],
    images: demoImages(),
  });
  const { totals } = bundle.payload;
  print(`   ocp 4.13.7: ${totals.images} images, ${totals.blobs} blobs, ${formatBytes(totals.sizeBytes)}`);

  print('\n2. On the node: the daemon starts. What systemctl status would show:');
  const listeners: ((report: StatusReport) => void)[] = [];
  const daemon = await createDaemon(
    {
      settings: await demoSettings(root, controller.signal),
      log: quietLog,
      clock: systemClock,
      node: { arch: goArch(), clockSynchronised: async () => false, facts: () => nodeFacts(), boot: () => bootTime() },
      notifier: silentNotifier,
      units: noUnits,
      providers: [],
      onStatus: (report) => {
        for (const listener of listeners) listener(report);
      },
    },
    controller.signal,
  );
  let last = '';
  listeners.push(({ status }) => {
    if (status !== last) print(`   STATUS=${status}`);
    last = status;
  });
  const idle = awaitReport(
    (listener) => listeners.push(listener),
    (report) => report.status.startsWith('IDLE'),
  );
  const running = daemon.run(controller.signal);
  await Promise.race([idle, running]);

  print('\n3. The stick is plugged in; nobody does anything else');
  const done = awaitReport(
    (listener) => listeners.push(listener),
    (report) => report.bundles[0]?.phase === 'activated',
  );
  renameSync(join(root, 'factory'), join(root, 'stick'));
  await Promise.race([done, running]);

  print('\n4. The images of the runtime');
  const runtime = await daemon.observeRuntime(controller.signal);
  const images = runtime.kind === 'reachable' ? runtime.images : [];
  print(formatTable(['IMAGE', 'TAG', 'PINNED'], images.map(imageRow)));
  controller.abort();
  await running;
}

/** The defaults, moved below `root`. */
async function demoSettings(root: string, signal: AbortSignal): Promise<Settings> {
  const settings = await loadSettings({ fragments: [] }, signal);
  return {
    ...settings,
    trust: { ...settings.trust, keys_dir: join(root, 'keys.d') },
    media: { ...settings.media, detect: false, directories: [join(root, 'stick')], incoming: join(root, 'incoming') },
    runtime: { ...settings.runtime, kind: 'embedded' },
    registry: { ...settings.registry, listen: '127.0.0.1:0' },
    paths: { state_dir: join(root, 'state'), run_dir: join(root, 'run') },
  };
}

/** The demo runs without systemd. */
const noUnits: UnitControl = { reloadUnit: async () => undefined, onUnitChange: () => () => undefined };

function imageRow(image: { repoTags: readonly string[]; repoDigests: readonly string[]; pinned: boolean }): string[] {
  const name = image.repoDigests[0] ?? '';
  return [
    name.slice(0, name.indexOf('@') + 20),
    image.repoTags[0]?.split(':').at(-1) ?? '-',
    image.pinned ? 'yes' : 'NO',
  ];
}

/** The demo shows the STATUS lines; warnings would be news. */
const quietLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: (_fields, message) => print(`   warning: ${message}`),
  error: (_fields, message) => print(`   error: ${message}`),
};

await main();
