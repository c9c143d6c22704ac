import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parsePublicKey } from '../../../../src/bundle/keys/keys.ts';
import { SystemBus } from '../../../../src/host/bus/system-bus.ts';
import { SystemdHookRunner } from '../../../../src/host/hook-runner.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { makeSampleBundle, type SampleKey, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { type PrivateBus, startPrivateBus } from '../../../support/bus/private-bus.ts';
import { type SystemdDouble, startSystemdDouble } from '../../../support/bus/systemd-double.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type HarnessOptions,
} from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';
import { have, program } from '../../../support/requirements.ts';

const example = (name: string) => new URL(`../../../../docs/examples/${name}`, import.meta.url).pathname;
const shipped = (name: string) => new URL(`../../../../systemd/${name}`, import.meta.url).pathname;
const UNITS = [
  ...readdirSync(example('')).map(example),
  ...readdirSync(shipped(''))
    .filter((name) => /-(?:openshift|microshift|host)-/.test(name))
    .map(shipped),
].filter((path) => path.endsWith('.service'));
const never = new AbortController().signal;

describe.runIf(have(program('systemd-analyze', 'apt-get install systemd')))('the unit of a hook', () => {
  it.each(UNITS.map((path) => [basename(path), path]))('%s has no line that systemd does not know', (name, path) => {
    const { stderr } = spawnSync('systemd-analyze', ['verify', path], { encoding: 'utf8' });
    // Programs and units that this machine lacks are the node's.
    const faults = stderr.split('\n').filter((line) => line.includes(`${name}:`) && !/is not executable/.test(line));
    expect(faults).toEqual([]);
  });
});

/** The daemon over the wire protocol of systemd, with units whose commands are really run. */
describe.runIf(have('dbus-daemon'))('a hook', () => {
  let dbus: PrivateBus;
  let systemd: SystemdDouble;
  let bus: SystemBus;
  const base = folderForEach();
  let node: DaemonHarness;
  let run: string;
  /** What the commands of each unit printed, in order. */
  let started: string[];

  beforeEach(async () => {
    started = [];
    run = join(base, 'run');
    dbus = await startPrivateBus();
    systemd = await startSystemdDouble(dbus.address);
    bus = new SystemBus({ clock: systemClock, log: createRecordingLog(), address: dbus.address });
    await bus.start(never);
  });
  afterEach(async () => {
    await node.dispose();
    bus.close();
    systemd.stop();
    await dbus[Symbol.asyncDispose]();
  });

  const start = async (options: HarnessOptions) => {
    node = await createDaemonHarness({
      ...options,
      hookRunner: new SystemdHookRunner(bus, join(run, 'hooks')),
    });
    await node.start();
  };
  const addUnit = (unit: string) =>
    systemd.addUnit(unit, {
      Unit: { LoadState: 'loaded', ActiveState: 'inactive' },
      Service: { Result: 'success', ExecMainStatus: 0 },
    });
  /**
   * Runs the commands of a unit in docs/examples, with `/usr/local/bin` and `/run/stickpin`
   * elsewhere.
   */
  const execute = (unit: string): string => {
    const text = readFileSync(example(unit), 'utf8').replaceAll('/run/stickpin', run).replaceAll('%n', unit);
    const [, file = ''] = /^EnvironmentFile=(.*)$/m.exec(text) ?? [];
    const commands = [...text.matchAll(/^ExecStart=(.*)$/gm)].map(([, command = '']) =>
      command.replaceAll('/usr/local/bin', join(base, 'bin')).replace('/usr/bin/systemctl', 'echo'),
    );
    const script = [...(file === '' ? [] : [`. ${file}`]), ...commands];
    started.push(execFileSync('/bin/sh', ['-ec', script.join('\n')], { encoding: 'utf8' }).trim());
    return 'done';
  };

  it('installs software of the node that travels with the release, before its tags move', async () => {
    const unit = 'k3s-install.service';
    addUnit(unit);
    let phase: string | undefined;
    systemd.hooks = {
      start: async () => {
        phase = node.engine.report()?.bundles[0]?.phase;
        return execute(unit);
      },
    };
    await start({ settings: { hooks: { 'before-activate': unit } } });
    const k3s = join(base, 'k3s');
    writeFileSync(k3s, 'ELF 4.13.7');
    truncateSync(k3s, 20 * 1024 * 1024);
    const attachments = [{ path: k3s, name: 'k3s', mediaType: 'application/octet-stream' }];
    await node.load((await makeSampleBundle({ dir: base, keys: [node.key], attachments })).path);
    expect(phase).toBe('ready');
    const installed = join(base, 'bin/k3s');
    expect([statSync(installed).mode & 0o777, readFileSync(installed).equals(readFileSync(k3s))]).toEqual([
      0o755,
      true,
    ]);
  });

  it('installs the older software again in a rollback, and restarts it', async () => {
    const hooks = { 'before-activate': 'k3s-install.service', activated: 'k3s-restart.service' };
    for (const unit of Object.values(hooks)) addUnit(unit);
    systemd.hooks = { start: async (unit) => execute(unit) };
    await start({ settings: { hooks } });
    const installed = () => readFileSync(join(base, 'bin/k3s'), 'utf8');
    for (const sequence of [7, 8]) {
      const k3s = join(base, 'k3s');
      writeFileSync(k3s, `ELF ${sequence}`);
      const attachments = [{ path: k3s, name: 'k3s', mediaType: 'application/octet-stream' }];
      const images = [{ reference: `quay.example.com/pause:${sequence}`, image: sampleImage({ seed: `${sequence}` }) }];
      const bundle = await node.make({ sequence, version: `4.13.${sequence}`, attachments, images });
      node.plug(bundle.path);
      await node.until(() => started.length === 2 * (sequence - 6));
      expect(installed()).toBe(`ELF ${sequence}`);
      node.engine.commands.prove({ bundle: `ocp@4.13.${sequence}` });
      await node.takeOut();
    }
    node.engine.commands.rollback({ stream: 'ocp' });
    await node.until(() => started.length === 6);
    expect(installed()).toBe('ELF 7');
    expect(started).toEqual(Array.from({ length: 3 }, () => ['', 'try-restart k3s.service']).flat());
  });

  it('holds the activation while it fails, with the result of its unit', async () => {
    const unit = 'before.service';
    addUnit(unit);
    systemd.hooks = {
      start: async () => {
        systemd.changeProperties(unit, 'Service', { Result: 'exit-code', ExecMainStatus: 3 });
        return 'failed';
      },
    };
    await start({ settings: { hooks: { 'before-activate': unit } } });
    node.plug((await makeSampleBundle({ dir: base, keys: [node.key] })).path);
    const { bundles, status } = await node.until((report) =>
      (report.bundles[0]?.activationHolds?.[0]?.message ?? '').includes('failed once'),
    );
    expect(bundles[0]).toMatchObject({
      phase: 'ready',
      activationHolds: [{ gate: 'hook', code: 'hook', message: expect.stringContaining('exit-code, status 3') }],
    });
    expect(status).toMatch(/hook before-activate failed once\. .*before\.service failed: exit-code/);
  });

  describe('with a unit that the settings name for one stream and key', () => {
    const unit = 'stickpin-host-switch.service';
    const key = sampleKey('factory-2026');
    const other = sampleKey('customer');
    const keyIdOf = ({ publicPem, name }: SampleKey) => parsePublicKey(publicPem, name).keyId;
    const hooks = { 'before-activate': unit };
    const streams = { ocp: { units: [unit], unit_keys: [keyIdOf(key)] } };

    beforeEach(async () => {
      addUnit(unit);
      systemd.hooks = {
        start: async () => {
          started.push(unit);
          return 'done';
        },
      };
      await start({ keys: [key, other], settings: { hooks, streams } });
    });

    it('starts it for that stream', async () => {
      await node.load((await makeSampleBundle({ dir: base, keys: [key] })).path);
      expect([started, node.report().bundles[0]?.phase]).toEqual([[unit], 'activated']);
    });

    it('starts it for no other stream, which is activated without it', async () => {
      await node.load((await makeSampleBundle({ dir: base, keys: [key], name: 'edge' })).path);
      expect([started, node.report().bundles[0]?.phase]).toEqual([[], 'activated']);
    });

    it('starts it for no release of another key that is trusted, and says so', async () => {
      node.plug((await makeSampleBundle({ dir: base, keys: [other] })).path);
      const { bundles } = await node.until((report) =>
        (report.bundles[0]?.activationHolds?.[0]?.message ?? '').includes('is not started'),
      );
      const why = 'since no key of unit_keys of its stream signed the release';
      expect(bundles[0]?.activationHolds?.[0]?.message).toContain(`${unit} is not started, ${why}`);
      expect([started, bundles[0]?.phase]).toEqual([[], 'ready']);
    });
  });

  it('restarts a unit that uses images.env when that names the images of the proven release', async () => {
    const unit = 'database-restart.service';
    addUnit(unit);
    let read = '';
    systemd.hooks = {
      start: async () => {
        read = readFileSync(join(node.base, 'run/images.env'), 'utf8');
        return 'done';
      },
    };
    await start({ settings: { hooks: { proven: unit } } });
    const image = { reference: 'quay.example.com/sonic/database:1', component: 'database' };
    const images = [{ ...image, image: sampleImage({ seed: 'database' }) }];
    const { path, contents } = await makeSampleBundle({ dir: base, keys: [node.key], images });
    await node.load(path);
    expect(read).toBe('');
    node.engine.commands.prove({ bundle: 'ocp@4.13.7' });
    await node.until(() => read !== '');
    expect(read).toContain(`STICKPIN_DATABASE=${contents.images[0]?.reference}\n`);
    expect(existsSync(join(run, 'hooks', `${unit}.env`))).toBe(true);
  });
});
