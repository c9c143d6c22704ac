import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NodeFacts } from '../../../../src/domain/model/machine.ts';
import { parseReference } from '../../../../src/domain/model/reference.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import { nodeFacts } from '../../../../src/host/node-facts.ts';
import { bundleIntoCache } from '../../../support/bundles/bundle-program.ts';
import { installRole } from '../../../support/bundles/role-file.ts';
import { installKeys, makeSampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDatagramReceiver, type DatagramReceiver } from '../../../support/bus/datagram-receiver.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { loseMirror } from '../../../support/state/lose-state.ts';

/** The programs of the units, in processes of their own. */
describe('a program whose settings are wrong at its start', { timeout: 60_000 }, () => {
  let notified: DatagramReceiver;
  const base = folderForEach();
  let child: ChildProcess;
  let output: string;
  const at = (name: string) => join(base, name);

  beforeEach(() => {
    notified = createDatagramReceiver();
    output = '';
  });
  afterEach(() => {
    child.kill('SIGKILL');
    notified[Symbol.dispose]();
  });

  const write = (text: string, stateDir = `"${at('state')}"`) =>
    writeFileSync(
      at('stickpin.toml'),
      `[runtime]\nkind = "embedded"\n[registry]\nlisten = "127.0.0.1:0"\n` +
        `[media]\ndetect = false\nincoming = "${at('incoming')}"\n[trust]\nkeys_dir = "${at('keys')}"\n` +
        `[paths]\nstate_dir = ${stateDir}\nrun_dir = "${at('run')}"\n${text}`,
    );
  const start = async (entry: string) => {
    const program = await bundleIntoCache(`src/${entry}.ts`, `${entry}-program`);
    child = spawn(process.execPath, [program, '--config', at('stickpin.toml')], {
      env: {
        PATH: process.env.PATH,
        NOTIFY_SOCKET: notified.path,
        DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${at('no')}`,
        STATE_DIRECTORY: `${at('fixed')}:${at('fixed')}/incoming`,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
  };
  const sent = () => notified.received.map(String);
  const ready = () => eventually(() => expect(sent()).toContain('READY=1'), 30_000);
  const status = () => sent().findLast((text) => text.startsWith('STATUS=')) ?? '';

  it.each([
    ['an unknown key', '[preload]\nparalel = 3\n', /: line 14: preload\.paralel is not a setting/],
    ['no TOML', '[preload]\nparallel = 3 d\n', /is not TOML: line 14 can't be read from column \d+ on/],
    ['keys that do not fit together', '[update]\nstrategy = "window"\n', /update\.windows names no window/],
  ])('says READY with %s, names it in STATUS, and starts again once it is mended', async (_what, text, why) => {
    write(text);
    await start('main');
    await ready();
    await eventually(() => expect(status()).toMatch(/^STATUS=CALL SUPPORT \(C-05\): The settings are wrong: /));
    expect(status()).toMatch(why);
    expect(status().length).toBeLessThanOrEqual('STATUS='.length + 200);
    expect(output.match(/The settings are wrong/g)).toHaveLength(1);
    expect(readFileSync(`/proc/${child.pid}/comm`, 'utf8')).toBe('stickpin\n');
    expect(readFileSync(`/proc/${child.pid}/cmdline`, 'utf8')).toContain('--config');
    const ended = once(child, 'exit', { signal: AbortSignal.timeout(30_000) });
    write('[preload]\nparallel = 3\n');
    expect(await ended).toEqual([0, null]);
    expect(output).toContain('The settings changed');
  });

  it('names another fault that takes the place of the first, and does not end', async () => {
    write('[preload]\nparalel = 3\n');
    await start('main');
    await ready();
    write('[preload]\nparallell = 3\n');
    await eventually(() => expect(status()).toContain('preload.parallell'), 30_000);
    expect(child.exitCode).toBeNull();
  });

  it.each(['fleet', 'sources', 'console'])('%s waits with READY, and goes on in the same process', async (name) => {
    write('[preload]\nparalel = 3\n');
    await start(name);
    await ready();
    await eventually(() => expect(status()).toMatch(/^STATUS=CALL SUPPORT \(C-05\): .*preload\.paralel/));
    expect(readFileSync(`/proc/${child.pid}/comm`, 'utf8')).toBe(`${`stickpin-${name}`.slice(0, 15)}\n`);
    const ended = once(child, 'exit', { signal: AbortSignal.timeout(30_000) });
    write('');
    // Nothing asks for it, so that it ends as with right settings.
    expect(await ended).toEqual([0, null]);
    expect(output).toMatch(/fleet\.enabled is false|No section \[sources\.NAME\]|console\.vt is not set/);
  });

  it('answers pulls from the state that valid settings named last, where the folder of the state is wrong', async () => {
    const key = sampleKey();
    installKeys(at('keys'), [key]);
    const { contents } = await makeSampleBundle({ dir: at('incoming'), keys: [key] });
    const { repository, tag } = parseReference(contents.images[0]?.tags[0] ?? '');
    const started = async () => {
      notified[Symbol.dispose]();
      notified = createDatagramReceiver();
      await start('main');
      await ready();
    };
    const keep = '[retention]\nblobs = "kept"\n';
    write(keep);
    await started();
    await eventually(() => expect(status()).toMatch(/^STATUS=DONE/), 30_000);
    const ended = once(child, 'exit', { signal: AbortSignal.timeout(30_000) });
    child.kill('SIGTERM');
    await ended;
    write(keep, '"state"');
    await started();
    await eventually(() => expect(status()).toMatch(/C-05.*paths\.state_dir/));
    const authority = output
      .match(/registry listens on (\S+:\d+)/g)
      ?.at(-1)
      ?.split(' ')
      .at(-1);
    const token = readFileSync(at('state/registry-token'), 'utf8').trim();
    const headers = { accept: 'application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json' };
    const url = `http://${authority}/v2/${token}/${repository}/manifests/${tag}`;
    await eventually(async () => expect((await fetch(url, { headers })).status).toBe(200), 30_000);
  });

  it('a file that the command line names must be there: it uses no other folders', async () => {
    await start('main');
    expect(await once(child, 'exit', { signal: AbortSignal.timeout(30_000) })).toEqual([1, null]);
    await eventually(() => expect(status()).toMatch(/Can't start: .*stickpin\.toml is not there; check its name/));
  });
});

describe('a daemon that only keeps, since its settings were wrong at its start', { timeout: 120_000 }, () => {
  let facts: NodeFacts;
  let effects: Effect['kind'][];
  let node: DaemonHarness;
  beforeEach(async () => {
    facts = nodeFacts();
    effects = [];
    node = await createDaemonHarness({
      settings: { retention: { blobs: 'kept' } },
      afterEffect: ({ kind }) => void effects.push(kind),
      get facts() {
        return facts;
      },
    });
  });
  const startKeeping = async () => {
    await node.stop();
    facts = { ...facts, settingsFault: 'a.toml: line 2: x is not a setting of stickpin', keepsOnly: true };
    effects = [];
    await node.start();
  };
  const startAgain = async () => {
    await node.stop();
    facts = nodeFacts();
    await node.start();
  };
  it('answers pulls, keeps pins, and adopts, activates, proves, retires and removes nothing', async () => {
    const first = await node.make({ version: '1.0.0', sequence: 1 });
    const next = await node.make({ version: '2.0.0', sequence: 2 });
    await node.start();
    await node.load(first.path);
    const [tag = ''] = first.contents.images[0]?.tags ?? [];
    expect(tag).not.toBe('');
    await node.takeOut();
    const pinned = (await node.images()).filter((image) => image.pinned).length;
    await startKeeping();
    node.plug(next.path);
    await node.rounds(5);
    expect(node.report().advice).toMatchObject({ action: 'call-support', code: 'C-05' });
    expect(node.report().bundles.map(({ phase, name }) => [phase, name])).toEqual([['activated', 'ocp']]);
    expect(await node.pullStatus(tag)).toBe(200);
    expect((await node.images()).filter((image) => image.pinned)).toHaveLength(pinned);
    expect(effects.filter((kind) => kind !== 'apply-pins' && kind !== 'apply-mirrors')).toEqual([]);
    await startAgain();
    await node.until(({ bundles }) => bundles.filter(({ phase }) => phase === 'activated').length === 2);
  });

  it('answers pulls of a release whose role is not in the folder that wrong settings name', async () => {
    const customer = sampleKey('customer');
    const scope = { streams: ['*'], repositories: ['quay.example.com'], keys: [customer] };
    const role = installRole(node.keysFolder, 'customer', scope);
    const { path, contents } = await node.make({ keys: [customer] });
    await node.start();
    await node.load(path);
    const [tag = ''] = contents.images[0]?.tags ?? [];
    await node.takeOut();
    rmSync(role);
    await startKeeping();
    await node.rounds();
    expect(await node.pullStatus(tag)).toBe(200);
    await startAgain();
    await node.until(({ bundles }) => bundles[0]?.reason?.code === 'trust/role');
    expect(await node.pullStatus(tag)).toBe(404);
  });

  it('records no lost release again before the settings are right', async () => {
    const { path } = await node.make();
    await node.start();
    await node.load(path);
    await node.takeOut();
    await node.stop();
    loseMirror(node.at('state'));
    rmSync(node.at('state/state.db'));
    await startKeeping();
    await node.rounds();
    expect(node.report().bundles).toEqual([]);
    await startAgain();
    await node.until(({ bundles }) => bundles.length === 1);
  });
});
