import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MANAGER, OBJECT_PATH, SERVICE } from '../../../src/api/contract.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { callAs, POLKIT_BUS_POLICY, startPolkit } from '../../support/bus/polkit.ts';
import { have } from '../../support/requirements.ts';

const BUS_POLICY = 'systemd/io.stickpin1.conf';
const ACTIONS = readFileSync('systemd/io.stickpin1.policy', 'utf8');

/** Allows one user one action, and asks another one for a password. */
const RULES = `polkit.addRule(function (action, subject) {
  if (action.id == 'io.stickpin1.activate' && subject.user == 'games') return polkit.Result.YES;
  if (action.id == 'io.stickpin1.activate' && subject.user == 'news') return polkit.Result.AUTH_ADMIN;
});`;

const OTHER_METHODS = ['approve', 'reject', 'unpin', 'load', 'restoreKey', 'rescan'];

/** Users that Debian's base-passwd makes. */
const [GAMES, NEWS, NOBODY] = [5, 9, 65_534];

let asked: string[];

function startApi(...policies: readonly string[]): Promise<ApiOnBus> {
  const note =
    (method: string) =>
    async (args: object, { uid }: { readonly uid: number | undefined }) => {
      const words = Object.values(args).filter((value) => typeof value === 'string');
      asked.push(`${method} ${words.join(' ')} by ${uid}`);
      return '';
    };
  const methods = Object.fromEntries(
    [...OTHER_METHODS, 'activate', 'pauseRollOut', 'resumeRollOut'].map((name) => [name, note(name)]),
  );
  return startApiOnBus(methods, undefined, [BUS_POLICY, ...policies]);
}

const call = (uid: number, { address }: ApiOnBus, ...args: readonly string[]) =>
  callAs(uid, address, [SERVICE, OBJECT_PATH, MANAGER, ...args]);

beforeEach(() => {
  asked = [];
});

describe.runIf(have('root', 'dbus-daemon', 'polkit', 'busctl'))('a call by an ordinary user, with polkit', () => {
  let api: ApiOnBus;
  let polkit: AsyncDisposable;

  beforeAll(async () => {
    api = await startApi(POLKIT_BUS_POLICY);
    polkit = await startPolkit(api.address, ACTIONS, RULES);
  });
  afterAll(async () => {
    await polkit[Symbol.asyncDispose]();
    await api[Symbol.asyncDispose]();
  });

  it('is carried out where a rule allows the action, with the user id of the caller', async () => {
    expect(await call(GAMES, api, 'Activate', 'sa{sv}', 'ocp@4.13.7', '0')).toMatchObject({ exitCode: 0, stderr: '' });
    expect(asked).toEqual([`activate ocp@4.13.7 by ${GAMES}`]);
  });

  it.each([
    ['Approve', 's', 'ocp@1'],
    ['Reject', 'sa{sv}', 'ocp@1', '0'],
    ['Unpin', 'sa{sv}', 'ocp@1', '1', 'force', 'b', 'true'],
    ['Load', 's', '/mnt'],
    ['Rescan'],
    ['RestoreKey', 's', 'ab'],
  ])('is refused where no rule allows it: %s', async (member, ...args) => {
    const { exitCode, stderr } = await call(GAMES, api, member, ...args);
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain('Access denied');
    expect(asked).toEqual([]);
  });

  it('is refused when the rule names another user', async () => {
    expect((await call(NOBODY, api, 'Activate', 'sa{sv}', 'ocp@1', '0')).stderr).toContain('Access denied');
    expect(asked).toEqual([]);
  });

  it.each([
    ['PauseRollOut', 'ssa{sv}', 'ocp@4.13.7', 'no power', '0'],
    ['ResumeRollOut', 's', '5f0c1d2e3a4b'],
  ])('pauses a roll-out for all nodes only where a rule allows an activation: %s', async (member, ...args) => {
    for (const uid of [NOBODY, NEWS]) {
      const { exitCode, stderr } = await call(uid, api, member, ...args);
      expect(exitCode).not.toBe(0);
      expect(stderr).toContain('Access denied');
    }
    expect(asked).toEqual([]);
    expect(await call(GAMES, api, member, ...args)).toMatchObject({ exitCode: 0, stderr: '' });
    expect(asked).toEqual([expect.stringMatching(new RegExp(`^${member}.* by ${GAMES}$`, 'i'))]);
  });

  it('is refused where polkit asks for a password and nobody can type one', async () => {
    const { exitCode } = await call(NEWS, api, 'Activate', 'sa{sv}', 'ocp@1', '0');
    expect(exitCode).not.toBe(0);
    expect(asked).toEqual([]);
  });

  it('is allowed when it only reads', async () => {
    expect((await call(NOBODY, api, 'GetHistory', 's', '')).exitCode).toBe(0);
    const status = [SERVICE, OBJECT_PATH, 'org.freedesktop.DBus.Properties', 'Get', 'ss', MANAGER, 'Status'];
    expect((await callAs(NOBODY, api.address, status)).stdout).toContain('IDLE');
  });

  it('by root needs no rule', async () => {
    expect((await call(0, api, 'Approve', 's', 'ocp@1')).exitCode).toBe(0);
    expect(asked).toEqual(['approve ocp@1 by 0']);
  });
});

describe.runIf(have('root', 'dbus-daemon', 'polkit', 'busctl'))('a call without polkit', () => {
  it('is refused to every user but root, and the error says so', async () => {
    await using api = await startApi();
    const { exitCode, stderr } = await call(GAMES, api, 'Activate', 'sa{sv}', 'ocp@4.13.7', '0');
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain('Access denied');
    expect(asked).toEqual([]);
    expect((await call(0, api, 'Activate', 'sa{sv}', 'ocp@4.13.7', '0')).exitCode).toBe(0);
    expect((await call(NOBODY, api, 'GetHistory', 's', '')).exitCode).toBe(0);
    expect(asked).toEqual(['activate ocp@4.13.7 by 0']);
  });
});
