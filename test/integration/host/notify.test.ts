import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createServiceNotifier, type SystemdNotifier } from '../../../src/host/notify.ts';
import { createDatagramReceiver, type DatagramReceiver } from '../../support/bus/datagram-receiver.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

describe('service notifier', () => {
  let systemd: DatagramReceiver;
  let notifier: SystemdNotifier | undefined;
  let healthy = true;
  const log = createRecordingLog();
  let now = 0;
  const clock = { monotonic: () => now, sleep: () => new Promise<void>(() => undefined) };
  const texts = (): string[] => systemd.received.map(String);

  const start = async (env: NodeJS.ProcessEnv, pid = 42): Promise<SystemdNotifier> => {
    notifier = await createServiceNotifier({
      env,
      healthy: () => healthy,
      log,
      clock,
      monotonicUsec: () => 123_456n,
      pid,
    });
    return notifier;
  };

  beforeEach(() => {
    systemd = createDatagramReceiver();
    healthy = true;
  });
  afterEach(() => {
    notifier?.dispose();
    systemd[Symbol.dispose]();
  });

  it('says ready, status, reloading and stopping', async () => {
    const service = await start({ NOTIFY_SOCKET: systemd.path });
    service.ready();
    service.status('Idle.\nWaiting');
    service.reloading();
    service.stopping();
    await eventually(() =>
      expect(texts()).toEqual(['READY=1', 'STATUS=Idle. Waiting', 'RELOADING=1\nMONOTONIC_USEC=123456', 'STOPPING=1']),
    );
  });

  it('asks for more time while the start works, and no more while it only waits or once it is ready', async () => {
    let work = 0;
    let isWorking = true;
    let looks = 0;
    notifier = await createServiceNotifier({
      env: { NOTIFY_SOCKET: systemd.path },
      healthy: () => true,
      log,
      clock,
      work: () => {
        looks += 1;
        if (isWorking) work += 1;
        return work;
      },
      extendEveryMs: 10,
    });
    const asked = () => texts().filter((text) => text === 'EXTEND_TIMEOUT_USEC=60000000').length;
    const lookedAgain = async () => {
      const before = looks;
      await eventually(() => expect(looks).toBeGreaterThan(before + 2));
    };
    await eventually(() => expect(asked()).toBeGreaterThan(1));
    isWorking = false;
    await lookedAgain();
    const whileWorking = asked();
    await lookedAgain();
    expect(asked()).toBe(whileWorking);
    isWorking = true;
    await eventually(() => expect(asked()).toBeGreaterThan(whileWorking));
    notifier.ready();
    await eventually(() => expect(texts()).toContain('READY=1'));
    expect(texts().at(-1)).toBe('READY=1');
  });

  it('sends an unchanged status once', async () => {
    const service = await start({ NOTIFY_SOCKET: systemd.path });
    for (const line of ['a', 'a', 'b', 'a']) {
      now += 1_000;
      service.status(line);
    }
    await eventually(() => expect(texts()).toEqual(['STATUS=a', 'STATUS=b', 'STATUS=a']));
  });

  it('says the last status before it says that it stops', async () => {
    const service = await start({ NOTIFY_SOCKET: systemd.path });
    for (const line of ['a', 'b', 'c']) service.status(line);
    service.stopping();
    await eventually(() => expect(texts()).toEqual(['STATUS=a', 'STATUS=c', 'STOPPING=1']));
  });

  it('feeds the watchdog at half of its limit, only while healthy', async () => {
    await start({ NOTIFY_SOCKET: systemd.path, WATCHDOG_USEC: '20000', WATCHDOG_PID: '42' });
    await eventually(() => expect(texts().filter((text) => text === 'WATCHDOG=1').length).toBeGreaterThan(2));
    healthy = false;
    now += 1_000;
    notifier?.status('marker');
    await eventually(() => expect(texts()).toContain('STATUS=marker'));
    const before = texts().length;
    const asked = Date.now();
    await eventually(() => expect(Date.now() - asked).toBeGreaterThan(60));
    expect(texts().length).toBe(before);
  });

  it('leaves the watchdog of another process alone', async () => {
    const service = await start({ NOTIFY_SOCKET: systemd.path, WATCHDOG_USEC: '2000', WATCHDOG_PID: '43' });
    const asked = Date.now();
    await eventually(() => expect(Date.now() - asked).toBeGreaterThan(30));
    service.ready();
    await eventually(() => expect(texts()).toEqual(['READY=1']));
  });

  it('hides the socket from children', async () => {
    const env = { NOTIFY_SOCKET: systemd.path, WATCHDOG_USEC: '20000000', WATCHDOG_PID: '42', PATH: '/bin' };
    await start(env);
    expect(env).toEqual({ PATH: '/bin' });
  });

  it.each([
    ['systemd started the service', { NOTIFY_SOCKET: '/run/systemd/notify' }, true],
    ['the socket is an abstract one', { NOTIFY_SOCKET: '@/org/example/notify' }, true],
    ['nobody waits for a message', {}, false],
  ])('reports that %s, after it has hidden the socket', async (_name, env, expected) => {
    expect((await start(env)).isStartedBySystemd).toBe(expected);
  });

  it('does nothing without a socket', async () => {
    const service = await start({});
    service.ready();
    service.status('x');
    expect(texts()).toEqual([]);
  });

  it('says once that an abstract socket is out of reach', async () => {
    const service = await start({ NOTIFY_SOCKET: '@/org/example/notify' });
    service.ready();
    expect(log.lines.at(-1)).toMatchObject({ level: 'warn', fields: { path: '@/org/example/notify' } });
  });

  it('finds the socket again when its owner was restarted, and does not fail meanwhile', async () => {
    const service = await start({ NOTIFY_SOCKET: systemd.path });
    service.status('one');
    await eventually(() => expect(texts()).toEqual(['STATUS=one']));
    systemd.close();
    now += 1_000;
    service.status('lost');
    systemd.reopen();
    now += 1_000;
    service.status('two');
    await eventually(() => expect(texts()).toEqual(['STATUS=one', 'STATUS=two']));
  });
});
