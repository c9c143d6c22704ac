import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { SystemdHookRunner } from '../../../src/host/hook-runner.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import type { HookRunner } from '../../../src/ports/node.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import { type SystemdDouble, startSystemdDouble } from '../../support/bus/systemd-double.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded } from '../../support/matching.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const never = new AbortController().signal;
const UNIT = 'before.service';
const ENVIRONMENT = 'STICKPIN_VERSION="4.13.7"\n';

describe.runIf(have('dbus-daemon'))('the units of hooks', () => {
  let daemon: PrivateBus;
  let systemd: SystemdDouble;
  let bus: SystemBus;
  const base = folderForEach();
  let runner: HookRunner;

  beforeAll(async () => {
    daemon = await startPrivateBus();
  });
  afterAll(async () => {
    await daemon[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    systemd = await startSystemdDouble(daemon.address);
    bus = new SystemBus({ clock: systemClock, log: createRecordingLog(), address: daemon.address });
    await bus.start(never);
    runner = new SystemdHookRunner(bus, join(base, 'hooks'));
  });
  afterEach(() => {
    bus.close();
    systemd.stop();
  });

  const file = () => join(base, 'hooks', `${UNIT}.env`);
  const add = (activeState = 'inactive', service: Readonly<Record<string, unknown>> = {}) =>
    systemd.addUnit(UNIT, {
      Unit: { LoadState: 'loaded', ActiveState: activeState },
      Service: { Result: 'success', ExecMainStatus: 0, ...service },
    });
  const starts = () => systemd.calls.filter((call) => call === 'StartUnit').length;

  it.each(['canceled', 'failed'])('have no result when a shutdown of the node ends them (%s)', async (result) => {
    add();
    systemd.state = 'stopping';
    systemd.hooks = { start: async () => result };
    const ending = new AbortController();
    let outcome: unknown = 'none';
    const run = runner.run(UNIT, ENVIRONMENT, ending.signal).then(
      (failure) => {
        outcome = failure;
      },
      (error: unknown) => {
        outcome = error;
      },
    );
    await eventually(() => expect(systemd.calls.slice(systemd.calls.indexOf('StartUnit'))).toContain('Get'));
    await bus.call(
      { destination: 'org.freedesktop.DBus', path: '/', interface: 'org.freedesktop.DBus', member: 'GetId' },
      never,
    );
    expect(outcome).toBe('none');
    ending.abort(new Error('the daemon stops'));
    await run;
    expect(outcome).toBe(ending.signal.reason);
  });

  it('get their environment before they are started, which nobody else can read', async () => {
    add();
    let seen = '';
    systemd.hooks = {
      start: async () => {
        seen = readFileSync(file(), 'utf8');
        return 'done';
      },
    };
    expect(await runner.run(UNIT, ENVIRONMENT, never)).toBeUndefined();
    expect(seen).toBe(ENVIRONMENT);
    expect(statSync(join(base, 'hooks')).mode & 0o777).toBe(0o700);
  });

  it('report how they failed, as far as systemd knows', async () => {
    add();
    systemd.hooks = {
      start: async () => {
        systemd.changeProperties(UNIT, 'Service', { Result: 'exit-code', ExecMainStatus: 3 });
        return 'failed';
      },
    };
    const failure = { kind: 'ended', job: 'failed', result: 'exit-code', status: 3 };
    expect(await runner.run(UNIT, ENVIRONMENT, never)).toEqual(failure);
    systemd.hooks = { start: async () => 'dependency' };
    add();
    expect(await runner.run(UNIT, ENVIRONMENT, never)).toEqual({ kind: 'ended', job: 'dependency' });
  });

  it.each([
    ['not-found', { kind: 'absent' }],
    ['masked', { kind: 'not-loaded', state: 'masked' }],
  ])('are not started when systemd says %s', async (state, failure) => {
    systemd.addUnit(UNIT, { Unit: { LoadState: state, ActiveState: 'inactive' } });
    expect(await runner.run(UNIT, ENVIRONMENT, never)).toEqual(failure);
    expect([starts(), existsSync(file())]).toEqual([0, false]);
  });

  it('do not count as successful when they are active already, since a start does nothing then', async () => {
    add('active');
    expect(await runner.run(UNIT, ENVIRONMENT, never)).toEqual({ kind: 'active' });
    expect([starts(), existsSync(file())]).toEqual([0, false]);
  });

  it('are waited for without a limit, and continue when nobody waits any more', async () => {
    add();
    let end: (result: string) => void = () => undefined;
    systemd.hooks = { start: () => new Promise((resolve) => (end = resolve)) };
    const stop = new AbortController();
    const first = runner.run(UNIT, ENVIRONMENT, stop.signal);
    await eventually(() => expect(starts()).toBe(1));
    systemd.changeProperties(UNIT, 'Unit', { ActiveState: 'activating' });
    stop.abort(new Error('the daemon stops'));
    await expect(first).rejects.toThrow('the daemon stops');
    // After a restart of the daemon the same run is joined.
    const second = runner.run(UNIT, ENVIRONMENT, never);
    await eventually(() => expect(starts()).toBe(2));
    end('done');
    expect(await second).toBeUndefined();
  });

  it('end for one release before they are started for the next one', async () => {
    add();
    const environments: string[] = [];
    const ends: ((result: string) => void)[] = [];
    systemd.hooks = {
      start: () => {
        environments.push(readFileSync(file(), 'utf8'));
        return new Promise((resolve) => ends.push(resolve));
      },
    };
    const stop = new AbortController();
    const first = runner.run(UNIT, ENVIRONMENT, stop.signal).catch(() => undefined);
    await eventually(() => expect(ends).toHaveLength(1));
    systemd.changeProperties(UNIT, 'Unit', { ActiveState: 'activating' });
    stop.abort();
    await first;
    const second = runner.run(UNIT, 'STICKPIN_VERSION="4.13.8"\n', never);
    await eventually(() => expect(starts()).toBe(2));
    systemd.changeProperties(UNIT, 'Unit', { ActiveState: 'inactive' });
    ends[0]?.('failed');
    await eventually(() => expect(ends).toHaveLength(2));
    ends[1]?.('done');
    expect(await second).toBeUndefined();
    expect(environments).toEqual([ENVIRONMENT, 'STICKPIN_VERSION="4.13.8"\n']);
  });

  it('are not started when their file can not be written', async () => {
    add();
    writeFileSync(join(base, 'hooks'), 'a file');
    await expect(runner.run(UNIT, ENVIRONMENT, never)).rejects.toMatchObject(
      coded('host/hook-file', `${file()} can't be written`),
    );
    expect(starts()).toBe(0);
  });
});
