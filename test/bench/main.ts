/**
 * `npm run bench`: what the daemon and the commands cost, beside what a user would use instead, in one run. Prints a table and fails no test.
 * Needs root, the trixie root folder of the integration tests, and `npm run build` before it (the script does that). `npm run bench -- bundle`
 * measures the commands alone and needs no more than openssl.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { formatTable } from '../../src/cli/output.ts';
import { startCrioDouble } from '../support/crio-double/start-crio-double.ts';
import { eventually } from '../support/eventually.ts';
import { startPrivateBus } from '../support/private-bus.ts';
import { skopeoArgv, trixieRoot } from '../support/rootfs/trixie-root.ts';
import { installKeys, makeSampleBundle, type SampleBundle, sampleKey } from '../support/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/sample-image.ts';
import { startSystemdDouble } from '../support/systemd-double.ts';
import { measureBundleCommands } from './bundle-commands.ts';
import { serviceFlags, startDaemonProcess } from './daemon-process.ts';
import type { Row } from './row.ts';

const MIB = 1024 * 1024;
const IDLE_MS = 5_000;

/** Eight images over one shared layer, 400 MiB in all. */
function benchImages() {
  const base = sampleLayer({ seed: 'base', sizeBytes: 80 * MIB, files: 100 });
  return Array.from({ length: 8 }, (_none, at) => ({
    reference: `registry.example.com/bench/image${at}:1.0.0`,
    image: sampleImage({
      seed: `i${at}`,
      layers: [base, sampleLayer({ seed: `l${at}`, sizeBytes: 40 * MIB, files: 50 })],
    }),
  }));
}

async function runCommand(argv: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${argv.join(' ')} ended with ${code}`);
  return performance.now() - startedAt;
}

/** Resident memory of an idle Node without any program, in MiB. */
async function bareNodeMiB(): Promise<number> {
  const script = 'setTimeout(() => { console.log(process.memoryUsage.rss()); }, 2000)';
  const child = spawn(process.execPath, [...serviceFlags(), '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  await once(child, 'close');
  return Number(text) / MIB;
}

function configText(base: string, double: { socketPath: string; dirs: Record<string, string> }): string {
  const { crioConfig, crioDropIns, registriesFile, registriesDropIns } = double.dirs;
  return `
    [trust]
    keys_dir = "${base}/keys.d"
    [media]
    detect = false
    directories = ["${base}/stick"]
    incoming = "${base}/incoming"
    [runtime]
    kind = "cri-o"
    socket = "${double.socketPath}"
    [crio]
    config_file = "${crioConfig}/crio.conf"
    config_dir = "${crioDropIns}"
    pins_file = "${base}/pins/99-stickpin.conf"
    registries_conf = "${registriesFile}"
    registries_dir = "${registriesDropIns}"
    [registry]
    listen = "127.0.0.1:0"
    [paths]
    state_dir = "${base}/state"
    run_dir = "${base}/run"
  `;
}

/** What a user would do by hand: one `skopeo copy` an image, from the same blobs into a storage of its own. */
async function copyByHand(bundle: SampleBundle, base: string): Promise<number> {
  let wallMs = 0;
  for (const [at, image] of bundle.contents.images.entries()) {
    const storage = `containers-storage:[vfs@${base}/by-hand+${base}/by-hand-run]${image.reference.replace(/@.*/, '')}:copy`;
    const source = `oci:${join(base, 'stick/stickpin', basename(bundle.path))}:@${at}`;
    wallMs += await runCommand([...skopeoArgv(), '--insecure-policy', 'copy', '--quiet', source, storage]);
  }
  return wallMs;
}

function print(rows: readonly Row[]): void {
  process.stdout.write(`\n${cpus().length} cores, Node ${process.version}\n\n`);
  process.stdout.write(formatTable(['WHAT', 'STICKPIN', 'COMPARED WITH', 'AIM'], rows));
}

async function main(): Promise<void> {
  const commands = await measureBundleCommands();
  if (process.argv[2] === 'bundle') return print(commands);
  await trixieRoot();
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const bus = await startPrivateBus();
  const systemd = await startSystemdDouble(bus.address);
  const double = await startCrioDouble({ skopeo: skopeoArgv() });
  systemd.addUnit('crio.service', { Unit: { ActiveState: 'active' } });
  systemd.hooks.reload = async () => {
    double.reload();
    return 'done';
  };
  try {
    const key = sampleKey();
    installKeys(join(base, 'keys.d'), [key]);
    for (const name of ['incoming', 'pins', 'prepared']) mkdirSync(join(base, name));
    const bundle = await makeSampleBundle({ dir: join(base, 'prepared/stickpin'), keys: [key], images: benchImages() });
    writeFileSync(join(base, 'bench.toml'), configText(base, { ...double, dirs: { ...double.dirs } }));
    print([...(await measure(base, bundle, double.log, bus.address)), ...commands]);
  } finally {
    await double.stop();
    systemd.stop();
    await bus[Symbol.asyncDispose]();
    rmSync(base, { recursive: true, force: true });
  }
}

async function measure(base: string, bundle: SampleBundle, doubleLog: () => string, bus: string): Promise<Row[]> {
  const env = { DBUS_SYSTEM_BUS_ADDRESS: bus };
  const starts: number[] = [];
  for (let run = 0; run < 5; run += 1) {
    const daemon = await startDaemonProcess(join(base, 'bench.toml'), env);
    starts.push(daemon.readyMs);
    await daemon.stop();
  }
  const daemon = await startDaemonProcess(join(base, 'bench.toml'), env);
  await delay(IDLE_MS);
  const idleMiB = daemon.residentMiB();
  const readBefore = daemon.readBytes();
  const pullsBefore = doubleLog().split('Pulling image').length;
  const pluggedAt = performance.now();
  renameSync(join(base, 'prepared'), join(base, 'stick'));
  await eventually(() => {
    if (doubleLog().split('Pulling image').length === pullsBefore)
      throw new Error(`nothing is pulled: ${daemon.status()}`);
  }, 20_000);
  const firstPullMs = performance.now() - pluggedAt;
  await eventually(() => {
    if (!/is ready: 8 images/.test(daemon.status())) throw new Error(`not ready: ${daemon.status()}`);
  }, 120_000);
  const readyMs = performance.now() - pluggedAt;
  const unique = bundle.payload.totals.sizeBytes;
  const ratio = (daemon.readBytes() - readBefore) / unique;
  const peakMiB = daemon.residentMiB();
  await daemon.stop();
  const byHandMs = await copyByHand(bundle, base);
  const node = await bareNodeMiB();
  const bareStart = await runCommand([process.execPath, '-e', '0']);
  const ms = (value: number) => `${Math.round(value)} ms`;
  const median = starts.sort((a, b) => a - b)[2] ?? 0;
  return [
    ['idle resident memory', `${idleMiB.toFixed(1)} MiB`, `${node.toFixed(1)} MiB (node, idle)`, 'under 70 MiB'],
    ['resident memory after the preload', `${peakMiB.toFixed(1)} MiB`, '', ''],
    ['start to READY=1 (median of 5)', ms(median), `${ms(bareStart)} (node -e 0)`, 'under 400 ms'],
    ['plug to first PullImage', ms(firstPullMs), '', 'under 1,000 ms'],
    ['plug to ready, 400 MiB', ms(readyMs), `${ms(byHandMs)} (skopeo copy oci:, one by one)`, ''],
    ['bytes read / unique bytes', ratio.toFixed(3), '', '1.00'],
  ];
}

await main();
