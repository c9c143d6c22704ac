import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { bundleIntoCache } from '../../../support/bundles/bundle-program.ts';
import { createDatagramReceiver, type DatagramReceiver } from '../../../support/bus/datagram-receiver.ts';
import { type PrivateBus, startPrivateBus } from '../../../support/bus/private-bus.ts';
import { type SystemdDouble, startSystemdDouble } from '../../../support/bus/systemd-double.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const UNIT = 'stickpin.service';

/** The program of the service, in a process of its own, on a bus where a double is systemd. */
describe.runIf(have('dbus-daemon'))('the daemon whose settings changed', { timeout: 60_000 }, () => {
  let bus: PrivateBus;
  let systemd: SystemdDouble;
  let notified: DatagramReceiver;
  let program: string;
  const base = folderForEach();
  let child: ChildProcess;
  let output: string;

  beforeAll(async () => {
    program = await bundleIntoCache('src/main.ts', 'daemon-program');
    bus = await startPrivateBus();
  });
  afterAll(() => bus[Symbol.asyncDispose]());
  beforeEach(async () => {
    systemd = await startSystemdDouble(bus.address);
    notified = createDatagramReceiver();
    output = '';
  });
  afterEach(() => {
    child.kill('SIGKILL');
    systemd.stop();
    notified[Symbol.dispose]();
  });

  const writeSettings = (parallel: number) =>
    writeFileSync(
      join(base, 'stickpin.toml'),
      `[preload]\nparallel = ${parallel}\n[runtime]\nkind = "embedded"\n[registry]\nlisten = "127.0.0.1:0"\n` +
        `[media]\ndetect = false\n[trust]\nkeys_dir = "${base}/keys"\n` +
        `[paths]\nstate_dir = "${base}/state"\nrun_dir = "${base}/run"\n`,
    );

  async function start(env: NodeJS.ProcessEnv): Promise<void> {
    writeSettings(1);
    child = spawn(process.execPath, [program, '--config', join(base, 'stickpin.toml')], {
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout?.on('data', (chunk) => {
      output += String(chunk);
    });
    await eventually(() => expect(output).toContain('stickpin started'), 30_000);
  }

  /** Changes the settings and waits for the end of the process. */
  async function exitAfterChange(): Promise<number | null> {
    const ended = once(child, 'exit', { signal: AbortSignal.timeout(30_000) });
    writeSettings(2);
    const [code] = await ended;
    return code as number | null;
  }
  const restarts = () => systemd.calls.filter((call) => call === 'RestartUnit').length;

  it('is restarted by systemd, which counts the automatic restarts from zero then', async () => {
    const asked: unknown[] = [];
    systemd.addUnit(UNIT, {});
    systemd.hooks = {
      unitOf: (pid) => (pid === child.pid ? UNIT : undefined),
      restart: async (unit, mode) => {
        asked.push([unit, mode]);
        child.kill('SIGTERM');
        return 'done';
      },
    };
    await start({ NOTIFY_SOCKET: notified.path, DBUS_SYSTEM_BUS_ADDRESS: bus.address });
    expect(await exitAfterChange()).toBe(0);
    expect(asked).toEqual([[UNIT, 'fail']]);
    expect(notified.received.map(String)).toContain('STOPPING=1');
    expect(output).not.toContain('ends by itself');
    // What it has written may come after its end.
    const ids = [messageIds.daemonStarted, messageIds.configurationChanged, messageIds.daemonStopping];
    await eventually(() => expect(ids.filter((id) => output.includes(id))).toEqual(ids));
  });

  it('goes on until the SIGTERM comes, and asks once for several changes', async () => {
    systemd.addUnit(UNIT, {});
    let terminate: () => void = () => undefined;
    systemd.hooks = {
      unitOf: () => UNIT,
      restart: () => {
        terminate = () => child.kill('SIGTERM');
        return Promise.resolve('done');
      },
    };
    await start({ NOTIFY_SOCKET: notified.path, DBUS_SYSTEM_BUS_ADDRESS: bus.address });
    writeSettings(2);
    await eventually(() => expect(restarts()).toBe(1), 10_000);
    writeSettings(3);
    // SIGHUP is answered by READY=1 after the settings were read once more.
    child.kill('SIGHUP');
    const ready = () => notified.received.filter((message) => String(message) === 'READY=1');
    await eventually(() => expect(ready()).toHaveLength(2), 10_000);
    expect([child.exitCode, output.match(/The settings changed/g)?.length]).toEqual([null, 1]);
    const ended = once(child, 'exit', { signal: AbortSignal.timeout(30_000) });
    terminate();
    expect(await ended).toEqual([0, null]);
    expect(restarts()).toBe(1);
  });

  it.each([
    ['has no such unit', UNIT, /ends by itself/],
    ['says that it runs in no service', 'session-3.scope', /session-3\.scope, which is no service/],
  ])('ends by itself when systemd %s', async (_what, unit, told) => {
    systemd.hooks = { unitOf: () => unit };
    await start({ NOTIFY_SOCKET: notified.path, DBUS_SYSTEM_BUS_ADDRESS: bus.address });
    expect(await exitAfterChange()).toBe(0);
    expect(output).toMatch(told);
  });

  it('ends by itself when no systemd answers, and when none has started it', async () => {
    await start({ NOTIFY_SOCKET: notified.path, DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${base}/no-bus` });
    expect(await exitAfterChange()).toBe(0);
    expect(output).toMatch(/ends by itself/);
    output = '';
    await start({ DBUS_SYSTEM_BUS_ADDRESS: bus.address });
    expect(await exitAfterChange()).toBe(0);
    expect(output).not.toMatch(/ends by itself/);
    expect(restarts()).toBe(0);
  });
});
