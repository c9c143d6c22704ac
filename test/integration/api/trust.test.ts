import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { TrustReport } from '../../../src/domain/report/status-schema.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { idleReport } from '../../support/bus/fake-backend.ts';
import { have } from '../../support/requirements.ts';

const [trusted, byFile, byBundle, remembered] = ['aa', 'bb', 'cc', 'dd'].map((byte) => byte.repeat(32));
const report: TrustReport = {
  require: 'signature',
  threshold: 1,
  keys: [{ name: 'factory-2026', keyId: trusted ?? '' }],
  revoked: [
    { keyId: byFile ?? '', file: 'stolen.revoked' },
    { keyId: byBundle ?? '', revokedBy: 'ocp@5' },
    { keyId: remembered ?? '' },
  ],
  problems: [],
  revocationsUnreadable: false,
};

describe.runIf(have('dbus-daemon'))('trust over the bus', () => {
  let api: ApiOnBus;
  let restored: string[];

  beforeAll(async () => {
    api = await startApiOnBus(
      {
        restoreKey: async ({ keyId }, { uid }) => {
          restored.push(`${keyId} by ${uid}`);
          return `Key ${keyId} was restored.`;
        },
        revokeKey: async ({ keyId }, { uid }) => {
          restored.push(`revoke ${keyId} by ${uid}`);
          return `Key ${keyId} was revoked.`;
        },
        resetStream: async ({ stream }, { uid }) => {
          restored.push(`reset ${stream} by ${uid}`);
          return `Stream ${stream} was reset.`;
        },
      },
      () => idleReport({ trust: report }),
    );
  });
  afterAll(() => api[Symbol.asyncDispose]());
  beforeEach(() => {
    restored = [];
  });

  it('lists the keys with where they come from', async () => {
    const { stdout, exitCode } = await api.run('trust', 'list');
    expect(exitCode).toBe(0);
    expect(stdout.split('\n').map((line) => line.replace(/ +/g, ' '))).toEqual([
      'KEY ID STATE FROM',
      `${trusted} trusted factory-2026.pub`,
      `${byFile} revoked stolen.revoked`,
      `${byBundle} revoked bundle ocp@5`,
      `${remembered} revoked a file that is gone`,
      '',
    ]);
    expect(JSON.parse((await api.run('trust', 'list', '--json')).stdout)).toEqual({ schemaVersion: 1, ...report });
  });

  it('restores nothing without a terminal unless it is forced', async () => {
    const { exitCode, stderr } = await api.run('trust', 'restore', remembered ?? '');
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^stickpin: .*nothing was changed\. Give --force to do it anyway\n$/);
    expect(restored).toEqual([]);
    for (const flag of ['--force', '--yes']) {
      const done = await api.run('trust', 'restore', remembered ?? '', flag);
      expect(done).toEqual({ exitCode: 0, stdout: `Key ${remembered} was restored.\n`, stderr: '' });
    }
    const line = `${remembered} by ${process.getuid?.()}`;
    expect(restored).toEqual([line, line]);
  });

  it.each([
    [
      'revoke',
      'ab12',
      'Key ab12 was revoked.',
      'If you revoke key ab12, bundles that it signed are not trusted any more',
    ],
    ['reset', 'ocp', 'Stream ocp was reset.', 'If you reset stream ocp, older bundles of it may be adopted again'],
  ])('%s says what follows and changes nothing without --force or a yes', async (command, subject, done, what) => {
    const refused = await api.run('trust', command, subject);
    expect(refused).toMatchObject({ exitCode: 1, stdout: '' });
    expect(refused.stderr).toContain(what);
    expect(refused.stderr).toContain('nothing was changed. Give --force to do it anyway');
    expect(restored).toEqual([]);
    for (const flag of ['--force', '--yes']) {
      expect(await api.run('trust', command, subject, flag)).toEqual({ exitCode: 0, stdout: `${done}\n`, stderr: '' });
    }
    const line = `${command} ${subject} by ${process.getuid?.()}`;
    expect(restored).toEqual([line, line]);
  });
});
