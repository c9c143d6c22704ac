import { Readable } from 'node:stream';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ApiClient } from '../../../../../src/api/client.ts';
import { commandAdapters } from '../../../../../src/app/command-line/command-adapters.ts';
import { runProgram } from '../../../../../src/cli/program.ts';
import { AppError } from '../../../../../src/platform/app-error.ts';
import { idleReport } from '../../../../support/bus/fake-backend.ts';

const AWAY = new AppError({ code: 'api/unreachable', message: 'The daemon is not running', disposition: 'wait' });

describe('stickpin status --watch', () => {
  let answer: () => ReturnType<ApiClient['report']>;
  let changed: () => Promise<void>;
  let resize: (columns: number) => void;
  let output: string[];
  let stop: AbortController;
  let exit: Promise<number>;
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  const shown = () =>
    output.map(
      (text) => ['H', 'K', 'J'].reduce((left, end) => left.replaceAll(`\u001b[${end}`, ''), text).split('\n')[0],
    );

  beforeEach(async () => {
    [output, stop] = [[], new AbortController()];
    answer = async () => idleReport({ status: 'Idle.' });
    const client: Partial<ApiClient> = {
      close: () => undefined,
      report: () => answer(),
      watch: async (listener) => {
        changed = () => {
          listener();
          return turn();
        };
      },
    };
    exit = runProgram(['status', '--watch'], {
      stdout: (text) => output.push(text),
      stderr: (text) => output.push(text),
      stdin: () => Readable.from([]),
      isTerminal: true,
      columns: 80,
      onResize: (listener) => {
        resize = listener;
      },
      signal: stop.signal,
      now: () => 0,
      env: {},
      connect: async () => client as ApiClient,
      settingsSources: { fragments: [] },
      adapters: async () => commandAdapters,
    });
    while (output.length === 0) await turn();
  });

  it('tells that the daemon ended, and shows it again once it answers', async () => {
    answer = async () => Promise.reject(AWAY);
    await changed();
    answer = async () => idleReport({ status: 'Looking at media.' });
    await changed();
    expect(shown()).toEqual(['Idle.', 'The daemon is not running. This screen waits for it.', 'Looking at media.']);
    stop.abort();
    await exit;
  });

  it('ends without a fault when it is interrupted while the daemon is away', async () => {
    answer = async () => Promise.reject(AWAY);
    await changed();
    stop.abort();
    expect([0, 130]).toContain(await exit);
    expect(output.join('')).not.toContain('at ');
  });

  it('ends with any other error', async () => {
    answer = async () => Promise.reject(new AppError({ code: 'api/failed', message: 'No.', disposition: 'reject' }));
    await changed();
    expect(await exit).toBe(1);
    expect(shown().at(-1)).toContain('No.');
  });

  it('follows the width of the terminal', async () => {
    const status = 'Preloading ocp 4.13.7 from sdb1: 37/112 images';
    answer = async () => idleReport({ status });
    resize(30);
    await turn();
    expect(shown().at(-1)).not.toBe(status);
    expect(shown().at(-1)?.length).toBeLessThanOrEqual(30);
  });
});
