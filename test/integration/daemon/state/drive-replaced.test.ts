import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { layerPath } from '../../../../src/store/files/layers/layer-files.ts';
import { bundleIntoCache } from '../../../support/bundles/bundle-program.ts';
import { installKeys, makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { type PrivateBus, startPrivateBus } from '../../../support/bus/private-bus.ts';
import { type SystemdDouble, startSystemdDouble } from '../../../support/bus/systemd-double.ts';
import { type Containerd, startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { commandsOf } from '../../../support/docs/marked-blocks.ts';
import { runBlocks, stickpinOnPath } from '../../../support/docs/run-blocks.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';

const PAGE = 'docs/operate.md';

/** The rows below the heading: what was lost, and what to do. */
const advice = () => {
  const [, section = ''] = readFileSync(PAGE, 'utf8').split('## A drive was replaced\n');
  const [table = ''] = section.trim().split('\n\n');
  const rows = table.split('\n').slice(2);
  return new Map(rows.map((row) => row.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, '')) as [string, string]));
};

/**
 * The sections "A drive was replaced" and "A node joined later" of the page, with its commands, on
 * a node of the real daemon in a process of its own, real containerd and a private bus. What is
 * lost is removed for real.
 */
describe.runIf(have('root', 'mmdebstrap', 'dbus-daemon'))(PAGE, () => {
  let base: string;
  let bundle: SampleBundle;
  let containerd: Containerd;
  let bus: PrivateBus;
  let systemd: SystemdDouble;
  let program: string;
  let programs: string;
  let daemon: ChildProcess | undefined;
  let output = '';
  const at = (path: string) => join(base, path);

  beforeAll(async () => {
    base = mkdtempSync(join(tmpdir(), 'stickpin-drive-'));
    const key = sampleKey('factory-2026');
    installKeys(at('keys.d'), [key]);
    for (const folder of ['factory', 'incoming']) mkdirSync(at(folder));
    bundle = await makeSampleBundle({ dir: at('factory'), keys: [key], update: { from: '4.13.6' } });
    program = await bundleIntoCache('src/main.ts', 'daemon-program');
    programs = await stickpinOnPath(at('bin'));
    bus = await startPrivateBus();
    systemd = await startSystemdDouble(bus.address);
    systemd.addUnit('containerd.service', { Unit: { ActiveState: 'active' } });
  });
  afterAll(async () => {
    await stop();
    await containerd?.stop();
    systemd?.stop();
    await bus?.[Symbol.asyncDispose]();
    rmSync(base, { recursive: true, force: true });
  });

  /** A new drive for the runtime. */
  const newRuntime = async () => {
    await containerd?.stop();
    containerd = await startContainerd();
  };
  const start = async (retention = 'metadata') => {
    writeFileSync(
      at('stickpin.toml'),
      `[retention]\nblobs = "${retention}"\n[runtime]\nkind = "containerd"\nsocket = "${containerd.socketPath}"\n` +
        `[registry]\nlisten = "127.0.0.1:0"\n[preload]\nmin_free_percent = 0\n[trust]\nkeys_dir = "${at('keys.d')}"\n` +
        `[media]\ndetect = false\ndirectories = ["${at('stick')}"]\nincoming = "${at('incoming')}"\n` +
        `[paths]\nstate_dir = "${at('state')}"\nrun_dir = "${at('run')}"\n`,
    );
    output = '';
    daemon = spawn(process.execPath, [program, '--config', at('stickpin.toml')], {
      env: { PATH: process.env.PATH, DBUS_SYSTEM_BUS_ADDRESS: bus.address },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [daemon.stdout, daemon.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
    await eventually(() => expect(output).toContain('stickpin started'), 30_000);
  };
  const stop = async () => {
    if (daemon === undefined) return;
    const ended = once(daemon, 'exit');
    daemon.kill('SIGTERM');
    await ended;
    daemon = undefined;
  };
  const filesBelow = (folder: string) =>
    readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  /** The whole stick comes at one stroke. */
  const plug = () => {
    mkdirSync(at('new/stickpin'), { recursive: true });
    cpSync(bundle.path, at(join('new/stickpin', basename(bundle.path))), { recursive: true });
    renameSync(at('new'), at('stick'));
  };
  const unplug = () => rmSync(at('stick'), { recursive: true });
  const run = (name: string) =>
    runBlocks([commandsOf(PAGE, name)], { directory: base, programs, env: { DBUS_SYSTEM_BUS_ADDRESS: bus.address } });
  const total = () => bundle.contents.images.length;
  const title = () => `${bundle.payload.name}@${bundle.payload.version}`;
  const row = (phase: string) =>
    new RegExp(`^${title().replaceAll('.', '\\.')} +${phase}.* ${total()}/${total()} +${total()} `, 'm');
  /** What the page says to wait for, and what the runtime has then. */
  const expectBack = async () => {
    await eventually(async () => expect(await run('is it back')).toMatch(row('activated')), 60_000);
    const listed = await containerd.ctr('images', 'ls');
    for (const { reference, tags } of bundle.contents.images)
      for (const name of [reference, ...tags]) expect(listed).toContain(`${name} `);
  };

  it('has advice for each loss that is tried here', () => {
    expect([...advice().keys()]).toEqual([
      'the whole drive',
      'only the images of the runtime',
      'only `/var/lib/stickpin`',
    ]);
    expect(advice().get('only the images of the runtime')).toContain(
      'with `retention.blobs = "kept"` no stick is needed',
    );
    expect(advice().get('only `/var/lib/stickpin`')).toContain('until then the pins stay');
  });

  it('has a node ready that joins later, also with a release that may follow another one only', async () => {
    await newRuntime();
    await start();
    plug();
    await eventually(async () => {
      const said = await run('is it ready');
      expect(said).toMatch(row('activated'));
      expect(said).toMatch(/^Stream ocp$/m);
    }, 60_000);
  });

  it('brings everything back after the whole drive was replaced', async () => {
    unplug();
    await stop();
    for (const folder of ['state', 'run']) rmSync(at(folder), { recursive: true });
    await newRuntime();
    await start();
    plug();
    await expectBack();
  });

  it('brings the images back after only those of the runtime were lost', async () => {
    unplug();
    await stop();
    await newRuntime();
    await start();
    await eventually(async () => expect(await run('is it back')).toMatch(/ 0\/\d+ /), 30_000);
    plug();
    await expectBack();
  });

  it('keeps the pins after only the state was lost, and has the record back from the stick', async () => {
    unplug();
    await stop();
    for (const folder of ['state', 'run']) rmSync(at(folder), { recursive: true });
    await start();
    const pinned = async () => (await containerd.ctr('images', 'ls')).match(/io\.cri-containerd\.pinned=pinned/g) ?? [];
    await eventually(async () => expect(await run('is it back')).toContain('laimed'), 30_000);
    expect((await pinned()).length).toBeGreaterThanOrEqual(total());
    plug();
    await eventually(async () => expect(await run('is it back')).toMatch(row('ready \\(activation held\\)')), 30_000);
    await run('activate what runs');
    await expectBack();
  });

  it('needs no stick with retention.blobs = "kept"', async () => {
    await stop();
    await start('kept');
    const layers = new Set(bundle.contents.layers.map(({ digest }) => layerPath('', digest)));
    // One that is being written has another name.
    const kept = () => filesBelow(at('state/blobs/layers')).map(({ name }) => name);
    await eventually(() => expect(kept().sort()).toEqual([...layers].sort()), 30_000);
    unplug();
    await stop();
    await newRuntime();
    await start('kept');
    await expectBack();
  });
});
