import { describe, expect, it } from 'vitest';
import type { ApiBackend } from '../../../../src/api/backend.ts';
import { DaemonBackend } from '../../../../src/app/daemon/api-backend.ts';
import type { Daemon } from '../../../../src/app/daemon/daemon.ts';
import type { Event } from '../../../../src/domain/model/condition.ts';

/** The arguments of the commands below, as the history has them. */
const SHOWN: Readonly<Record<string, string>> = {
  activate: ' ocp override (ocp)',
  rollback: ' (ocp@4.13.6)',
  unpin: ' ocp force (ocp)',
  unpinUnclaimed: ' force (undefined)',
  cancel: ' (undefined)',
  approve: ' ocp (ocp)',
  reject: ' ocp bad (ocp)',
};

/** The commands of the engine that are called below. */
const COMMANDS = Object.keys(SHOWN);

const call = { signal: new AbortController().signal, uid: 1000 };
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('the answer to a command', () => {
  it.each([
    ['activate', ({ methods }: ApiBackend) => methods.activate({ bundle: 'ocp', options: { override: true } }, call)],
    ['rollback', ({ methods }: ApiBackend) => methods.rollback({ stream: '' }, call)],
    [
      'unpin',
      ({ methods }: ApiBackend) =>
        methods.unpin({ bundle: 'ocp', options: { removeImages: false, force: true } }, call),
    ],
    ['unpinUnclaimed', ({ methods }: ApiBackend) => methods.unpinUnclaimed({ options: { force: true } }, call)],
    ['cancel', ({ methods }: ApiBackend) => methods.cancel({}, call)],
    ['approve', ({ methods }: ApiBackend) => methods.approve({ bundle: 'ocp' }, call)],
    ['reject', ({ methods }: ApiBackend) => methods.reject({ bundle: 'ocp', options: { reason: 'bad' } }, call)],
  ])('%s is sent once its record is on the disk', async (name, ask) => {
    let toDisk: () => void = () => undefined;
    const done: string[] = [];
    const command = (what: string) => () => {
      done.push(what);
      return what === 'rollback' ? 'ocp@4.13.6' : undefined;
    };
    const engine = {
      commandsBy: (by: string) => {
        done.push(by);
        return {
          ...Object.fromEntries(COMMANDS.map((one) => [one, command(one)])),
          unpin: async () => command('unpin')(),
        };
      },
      note: ({ message }: Event, bundle?: string) => void done.push(`${message} (${bundle})`),
      settled: () =>
        new Promise<void>((resolve) => {
          toDisk = resolve;
        }),
    };
    const backend = new DaemonBackend(() => ({ engine }) as unknown as Daemon);
    let isAnswered = false;
    const answer = Promise.resolve(ask(backend)).then(() => {
      isAnswered = true;
    });
    await turn();
    expect([done, isAnswered]).toEqual([
      [`uid 1000: ${name}`, name, `User 1000 asked for: ${name}${SHOWN[name]}`],
      false,
    ]);
    toDisk();
    await answer;
    expect(isAnswered).toBe(true);
  });
});

describe('commands while the settings are wrong', () => {
  const asked: string[] = [];
  const engine = {
    commandsBy: () => Object.fromEntries(COMMANDS.map((one) => [one, () => void asked.push(one)])),
    imagesOf: () => ['one'],
    note: () => undefined,
    settled: async () => undefined,
  };
  const daemon = { engine, revokeKey: async () => void asked.push('revokeKey') } as unknown as Daemon;
  const { methods } = new DaemonBackend(
    () => daemon,
    () => 'a.toml: line 2: x is not a setting of stickpin',
  );

  it('are refused where they change something, with what is wrong', async () => {
    const refused = [
      () => methods.activate({ bundle: 'ocp', options: {} }, call),
      () => methods.approve({ bundle: 'ocp' }, call),
      () => methods.unpin({ bundle: 'ocp', options: { removeImages: false, force: true } }, call),
      () => methods.load({ path: '/mnt' }, call),
      () => methods.rescan({}, call),
      () => methods.restoreKey({ keyId: 'x' }, call),
      () => methods.resetStream({ stream: 'ocp' }, call),
    ];
    for (const ask of refused)
      await expect(ask()).rejects.toMatchObject({
        code: 'config/wrong',
        message: expect.stringContaining('a.toml: line 2'),
      });
    expect(asked).toEqual([]);
  });

  it('work where they only read, and where they take trust away', async () => {
    expect(await methods.getImages({ bundle: 'ocp' }, call)).toEqual(['one']);
    await methods.revokeKey({ keyId: 'x' }, call);
    expect(asked).toEqual(['revokeKey']);
  });
});
