import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { AppError } from '../../../src/platform/app-error.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { have } from '../../support/requirements.ts';

describe.runIf(have('dbus-daemon'))('commands that ask the daemon for one thing', () => {
  let api: ApiOnBus;
  let asked: string[];

  beforeAll(async () => {
    const note = (what: string, answer = '') => {
      asked.push(what);
      return Promise.resolve(answer);
    };
    api = await startApiOnBus({
      rollback: ({ stream }) => note(`rollback '${stream}'`, 'ocp@4.13.6'),
      cancel: async () => void (await note('cancel')),
      approve: ({ bundle }) => note(`approve ${bundle}`, `${bundle} is approved.`),
      reject: async ({ bundle }) => {
        throw new AppError({ code: 'engine/no-bundle', message: `no bundle ${bundle}`, disposition: 'reject' });
      },
      rescan: async () => void (await note('rescan')),
      load: ({ path }) => note(`load ${path}`, 'share'),
    });
  });
  afterAll(() => api[Symbol.asyncDispose]());
  beforeEach(() => {
    asked = [];
  });

  const started = "Activation of ocp@4.13.6 was asked for; 'stickpin status' shows how it goes.\n";
  it.each([
    ['rollback', [], "rollback ''", started],
    ['rollback', ['ocp'], "rollback 'ocp'", started],
    ['cancel', [], 'cancel', "Every preload is stopped. 'stickpin rescan' continues it.\n"],
    ['rescan', [], 'rescan', "All media and the runtime are read again; 'stickpin status' shows what is found.\n"],
    ['approve', ['ocp@4'], 'approve ocp@4', 'ocp@4 is approved.\n'],
    ['approve', ['--json', 'ocp@4'], 'approve ocp@4', '{"schemaVersion":1,"message":"ocp@4 is approved."}\n'],
    ['load', ['/mnt/../share'], 'load /share', expect.stringMatching(/^share is being read; /)],
  ])('%s %j', async (command, args, what, stdout) => {
    expect(await api.run(command, ...args)).toEqual({ exitCode: 0, stdout, stderr: '' });
    expect(asked).toEqual([what]);
  });

  it('print why the daemon refuses, and what is missing', async () => {
    expect(await api.run('reject', 'x@1')).toEqual({ exitCode: 1, stdout: '', stderr: 'stickpin: no bundle x@1\n' });
    expect((await api.run('reject')).exitCode).toBe(2);
    expect((await api.run('cancel', 'x')).exitCode).toBe(2);
    expect(asked).toEqual([]);
  });
});
