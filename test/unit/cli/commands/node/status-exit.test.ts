import { describe, expect, it } from 'vitest';
import { commandAdapters } from '../../../../../src/app/command-line/command-adapters.ts';
import { AppError } from '../../../../../src/platform/app-error.ts';
import { idleReport } from '../../../../support/bus/fake-backend.ts';
import { runCommand } from '../../../../support/run-command.ts';

const need = { code: 'M-12', message: 'plug in the stick again' };
const AWAY = new AppError({ code: 'api/unreachable', message: 'The daemon is not running', disposition: 'wait' });

describe('stickpin status --exit-code', () => {
  const good = idleReport();
  const run = (report: typeof good, ...flags: readonly string[]) =>
    runCommand(['status', '--exit-code', ...flags], { client: { report: async () => report } });

  it.each([
    [0, good],
    [1, { ...good, operation: 'preloading' as const }],
    [2, { ...good, needsPerson: [need] }],
    [3, { ...good, advice: { ...good.advice, action: 'call-support' as const } }],
  ])('ends with %d, and prints the same as without it', async (code, report) => {
    const { exitCode, stdout, stderr } = await run(report);
    const plain = await runCommand(['status'], { client: { report: async () => report } });
    expect([exitCode, stdout, stderr]).toEqual([code, plain.stdout, '']);
    expect(plain.exitCode).toBe(0);
    const json = await run(report, '--json');
    expect([json.exitCode, JSON.parse(json.stdout).status]).toEqual([code, report.status]);
  });

  it('ends with 3 while the daemon does not run', async () => {
    const storedState = { ...commandAdapters.storedState, report: async () => undefined };
    const { exitCode } = await runCommand(['status', '--exit-code'], {
      client: { report: () => Promise.reject(AWAY) },
      adapters: { ...commandAdapters, storedState },
    });
    expect(exitCode).toBe(3);
  });

  it.each(['api/starting', 'api/denied', 'api/failed'])(
    'ends with 4 after %s, which says nothing of the node',
    async (code) => {
      const fails = new AppError({ code, message: 'no answer', disposition: 'retry' });
      const client = { report: () => Promise.reject(fails) };
      const { exitCode, stdout } = await runCommand(['status', '--exit-code', '--json'], { client });
      expect([exitCode, JSON.parse(stdout).error.exitCode]).toEqual([4, 4]);
      expect((await runCommand(['status'], { client })).exitCode).not.toBe(4);
    },
  );

  it.each(['--watch', '--wrong'])('ends with 4 after wrong usage (%s)', async (flag) => {
    expect((await run(good, flag)).exitCode).toBe(4);
    expect((await runCommand(['status', '--wrong'])).exitCode).toBe(2);
  });
});
