import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Settings } from '../../../../src/domain/settings/settings.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDatagramReceiver, type DatagramReceiver } from '../../../support/bus/datagram-receiver.ts';
import { type PrivateBus, startPrivateBus } from '../../../support/bus/private-bus.ts';
import { type SystemdDouble, startSystemdDouble } from '../../../support/bus/systemd-double.ts';
import { expectWholeNode } from '../../../support/daemon/model/node-consistency.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

const repository = fileURLToPath(new URL('../../../../', import.meta.url));
const KILLS = 50;
const KILLS_EACH = 10;
/** A life lasts at most that long after READY=1; a preload takes a few of them. */
const LONGEST_LIFE_MS = 700;

/**
 * The program as it is built for a node, on a bus of its own, over the CRI-O double with real
 * skopeo: the fastest runtime that is one of its own.
 */
describe.runIf(have('root', 'mmdebstrap', 'dbus-daemon'))('the built daemon, killed at random moments', () => {
  let program: string;
  let factory: string;
  let node: CrioNode;
  let bus: PrivateBus;
  let systemd: SystemdDouble;
  let notified: DatagramReceiver;
  let daemon: ChildProcess | undefined;
  let output: string;

  beforeAll(async () => {
    await trixieRoot();
    program = mkdtempSync(join(tmpdir(), 'stickpin-dist-'));
    execFileSync(process.execPath, ['packaging/build.mjs', join(program, 'dist')], { cwd: repository });
    for (const name of ['node_modules', 'proto']) symlinkSync(join(repository, name), join(program, name));
  });
  afterAll(() => rmSync(program, { recursive: true, force: true }));
  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    output = '';
    node = await createCrioNode();
    mkdirSync(node.harness.settings.paths.state_dir, { recursive: true });
    writeFileSync(join(factory, 'stickpin.toml'), tomlOf(node.harness.settings));
    bus = await startPrivateBus();
    systemd = await startSystemdDouble(bus.address);
    systemd.addUnit('crio.service', { Unit: { ActiveState: 'active' } });
    systemd.hooks.reload = async () => {
      node.double().reload();
      return 'done';
    };
  });
  afterEach(async () => {
    await end('SIGKILL');
    systemd.stop();
    await bus[Symbol.asyncDispose]();
    await node.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  const start = async (): Promise<void> => {
    notified = createDatagramReceiver();
    daemon = spawn(process.execPath, [join(program, 'dist/main.js'), '--config', join(factory, 'stickpin.toml')], {
      env: { PATH: process.env.PATH, NOTIFY_SOCKET: notified.path, DBUS_SYSTEM_BUS_ADDRESS: bus.address },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [daemon.stdout, daemon.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
    await untilNotified((text) => text.includes('READY=1'));
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (daemon !== undefined && daemon.exitCode === null && daemon.signalCode === null) {
      const ended = once(daemon, 'exit');
      daemon.kill(signal);
      await ended;
    }
    notified?.[Symbol.dispose]();
    daemon = undefined;
  };
  const untilNotified = (isIt: (text: string) => boolean): Promise<void> =>
    eventually(() => {
      const texts = notified.received.map(String);
      if (!texts.some(isIt)) throw new Error(`not told yet; last: ${texts.at(-1)}\n${output.slice(-4_000)}`);
    }, 60_000);
  /** STATUS says so later, since it is sent once a second. */
  const isPreloading = (): boolean => {
    const file = join(node.harness.settings.paths.run_dir, 'status.json');
    return existsSync(file) && /"phase":\s*"preloading"/.test(readFileSync(file, 'utf8'));
  };
  /** Six images, each with a layer of its own over one that all share. */
  const release = (version: number): Promise<SampleBundle> => {
    const base = sampleLayer({ seed: `base-${version}`, sizeBytes: 512 * 1024 });
    return makeSampleBundle({
      dir: factory,
      version: `4.13.${version}`,
      sequence: version,
      keys: [node.harness.key],
      images: ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => ({
        reference: `quay.example.com/ocp/${name}:4.13.${version}`,
        image: sampleImage({ seed: `${name}-${version}`, layers: [base, sampleLayer({ seed: `${name}-${version}` })] }),
      })),
    });
  };

  it(`${KILLS} times, over five releases one after the other`, { timeout: 300_000 }, async () => {
    const seed = Number(process.env.STICKPIN_TEST_SEED ?? Date.now() % 2 ** 31);
    const random = seededRandom(seed);
    let inPreload = 0;
    for (let version = 1; version <= KILLS / KILLS_EACH; version += 1) {
      const bundle = await release(version);
      node.harness.plug(bundle.path);
      for (let kill = 0; kill < KILLS_EACH; kill += 1) {
        await start();
        // Not a wait for something: the moment of death is what is drawn.
        await delay(random() * LONGEST_LIFE_MS);
        if (isPreloading()) inPreload += 1;
        await end('SIGKILL');
      }
      await start();
      await untilNotified((text) => text.startsWith(`STATUS=DONE: ocp 4.13.${version} is installed.`));
      node.harness.unplug();
      await untilNotified((text) => text.startsWith('STATUS=IDLE:') && text.includes(`ocp 4.13.${version} activated`));
      await end('SIGTERM');
      await expectWholeNode(node.harness.settings.paths.state_dir, node.double(), { keepsMirrors: true });
    }
    process.stderr.write(`${KILLS} kills with STICKPIN_TEST_SEED=${seed}, ${inPreload} of them in mid-preload\n`);
    expect(output).not.toMatch(/A round failed|can't start/);
    expect(inPreload).toBeGreaterThan(0);
  });
});

/** What differs from the defaults, as a fragment. */
function tomlOf({ trust, media, runtime, crio, paths }: Settings): string {
  const sections: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
    trust: { keys_dir: trust.keys_dir },
    media: { detect: false, directories: media.directories, incoming: media.incoming },
    runtime: { kind: runtime.kind, socket: runtime.socket },
    crio,
    registry: { listen: '127.0.0.1:0' },
    paths,
  };
  return Object.entries(sections)
    .map(([name, values]) => {
      const lines = Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
      return `[${name}]\n${lines.join('\n')}\n`;
    })
    .join('\n');
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
