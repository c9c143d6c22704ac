import { describe, expect, it } from 'vitest';
import type { ResultOf } from '../../../../../src/api/backend.ts';
import type { ApiClient } from '../../../../../src/api/client.ts';
import { newEvents } from '../../../../../src/cli/commands/node/history.ts';
import { AppError } from '../../../../../src/platform/app-error.ts';
import { runCommand } from '../../../../support/run-command.ts';

type Events = ResultOf<'getHistory'>;

const NOW = Date.parse('2026-03-10T12:00:00.000Z');
const HOUR = 3_600_000;
const event = (at: number, message: string) => ({ at, kind: 'ready', message, by: 'daemon' });
const AWAY = new AppError({ code: 'api/unreachable', message: 'The daemon is not running', disposition: 'wait' });

/** Runs `history` against a daemon with these histories one after the other, then interrupts it. */
async function run(args: readonly string[], ...histories: readonly (Events | AppError)[]) {
  const stop = new AbortController();
  const left = [...histories];
  let changed: () => void = () => undefined;
  const client: Partial<ApiClient> = {
    watch: async (listener) => {
      changed = listener;
    },
    getHistory: async () => {
      const events = left.shift();
      setImmediate(() => (left.length > 0 ? changed() : stop.abort()));
      if (events === undefined || events instanceof AppError) throw events ?? AWAY;
      return events;
    },
  };
  const run = await runCommand(['history', ...args], { client, now: () => NOW, signal: stop.signal });
  return {
    ...run,
    lines: run.stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => line.replace(/^\S+ {2}/, '')),
  };
}

describe('stickpin history', () => {
  const events = [event(NOW - 3 * HOUR, 'a'), event(NOW - HOUR, 'b'), event(NOW, 'c')];

  it.each([
    ['2h', ['b', 'c']],
    ['90 min', ['b', 'c']],
    ['2026-03-10', ['a', 'b', 'c']],
    ['2026-03-10T11:30Z', ['c']],
    ['2026-03-10T12:30:00+01:00', ['c']],
  ])('shows events --since %s', async (since, expected) => {
    expect((await run(['--since', since], events)).lines).toEqual(expected);
  });

  it('says that nothing has happened since then', async () => {
    expect((await run(['--since', '2026-03-11'], events)).stdout).toBe('Nothing has happened since then.\n');
    expect((await run(['--since', '2026-03-11', '--json'], events)).stdout).toBe('{"schemaVersion":1,"events":[]}\n');
  });

  it('shows the newest with -n, after --since', async () => {
    expect((await run(['-n', '1'], events)).lines).toEqual(['c']);
    expect((await run(['-n', '5', '--since', '2h'], events)).lines).toEqual(['b', 'c']);
  });

  it('warns when the daemon keeps more than it gives', async () => {
    const many = Array.from({ length: 1_000 }, (_none, at) => event(NOW + at, `${at}`));
    const { stderr, lines } = await run(['--since', '2h'], many);
    expect(stderr).toContain('warning: only the newest 1000 events are shown');
    expect(lines).toHaveLength(1_000);
  });

  it.each([
    ['--since', 'yesterday'],
    ['--since', '2026-13-01'],
    ['-n', '1001'],
    ['-n', 'all'],
  ])('refuses %s %s as wrong usage', async (...args) => {
    expect((await run(args, events)).exitCode).toBe(2);
  });

  it('follows with each event once, past a restart of the daemon, and ends with 0', async () => {
    const more = [...events, event(NOW + 1, 'd')];
    const run1 = await run(['--follow'], events, more, more, AWAY, [...more.slice(1), event(NOW + 2, 'e')]);
    expect(run1.lines).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect([run1.exitCode, run1.stderr]).toEqual([0, 'The daemon is not running. It is waited for.\n']);
  });

  it('begins to follow with the newest 10, or as many as are wished', async () => {
    const many = Array.from({ length: 12 }, (_none, at) => event(NOW + at, `${at}`));
    expect((await run(['--follow'], many)).lines).toHaveLength(10);
    expect((await run(['--follow', '-n', '0'], many, [...many, event(NOW + 99, 'new')])).lines).toEqual(['new']);
    expect((await run(['--follow', '--since', '2h'], many)).lines).toHaveLength(12);
  });

  it('prints a document for each change with --follow --json', async () => {
    const { stdout } = await run(['--follow', '--json'], events.slice(0, 1), events);
    const documents = stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line));
    expect(documents.map((one) => one.events.map(({ message }: { message: string }) => message))).toEqual([
      ['a'],
      ['b', 'c'],
    ]);
  });

  it('tells equal events of one moment apart', () => {
    const twice = [event(NOW, 'a'), event(NOW, 'a')];
    expect(newEvents(twice, [...twice, event(NOW, 'a')])).toEqual([event(NOW, 'a')]);
    expect(newEvents(twice, twice.slice(1))).toEqual([]);
  });
});
