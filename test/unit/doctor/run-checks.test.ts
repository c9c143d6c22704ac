import { describe, expect, it } from 'vitest';
import { runChecks } from '../../../src/doctor/checks.ts';
import { findingsOn } from '../../../src/domain/model/reason.ts';

const never = new AbortController().signal;
const remedy = 'try again';
const good = { subject: 'good', remedy, run: async () => [findingsOn('good').ok('fine')] };

describe('runChecks', () => {
  it('reports a check that fails or hangs as a fault, and still reports the others', async () => {
    const broken = { subject: 'broken', remedy, run: () => Promise.reject(new Error('no such thing')) };
    const hanging = { subject: 'hanging', remedy, run: () => new Promise<never>(() => undefined) };
    expect(await runChecks([broken, hanging, good], never, 20)).toEqual([
      { subject: 'broken', verdict: 'fault', message: 'could not be looked at: no such thing', remedy },
      {
        subject: 'hanging',
        verdict: 'fault',
        message: expect.stringMatching(/^could not be looked at: .*hanging/),
        remedy,
      },
      { subject: 'good', verdict: 'ok', message: 'fine' },
    ]);
  });

  it('causes no warning of Node.js, for any number of checks', async () => {
    const warnings: string[] = [];
    const note = ({ name }: Error) => warnings.push(name);
    process.on('warning', note);
    try {
      await runChecks(new Array(20).fill(good), new AbortController().signal);
      await new Promise(setImmediate); // a warning comes a tick later
    } finally {
      process.off('warning', note);
    }
    expect(warnings).toEqual([]);
  });

  it('ends when its signal aborts', async () => {
    const stop = new AbortController();
    const hanging = { subject: 'hanging', remedy, run: () => new Promise<never>(() => undefined) };
    const running = runChecks([hanging, good], stop.signal, 60_000);
    stop.abort(new Error('enough'));
    await expect(running).rejects.toThrow('enough');
  });
});
