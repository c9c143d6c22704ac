import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { ApiClient } from '../../../../../src/api/client.ts';
import { commandAdapters } from '../../../../../src/app/command-line/command-adapters.ts';
import { runProgram } from '../../../../../src/cli/program.ts';
import { idleReport } from '../../../../support/bus/fake-backend.ts';

/**
 * Runs the command on a terminal of 40 columns; the daemon changes its status line while it checks.
 */
async function onTerminal(stderrColumns?: number) {
  let announce = (): void => undefined;
  let status = 'Idle.';
  let stderr = '';
  const shown = async (text: string) => {
    status = text;
    announce();
    await new Promise((resolve) => setImmediate(resolve));
  };
  const client: Partial<ApiClient> = {
    close: () => undefined,
    report: async () => idleReport({ status }),
    watch: async (listener, signal) => {
      announce = () => {
        if (!signal.aborted) listener();
      };
    },
    verifyImages: async () => {
      await shown('Checking the content of images: 0/2');
      await shown('Checking the content of images: 1/2, 5.0 GiB read');
      return [];
    },
  };
  const exitCode = await runProgram(['verify-images'], {
    stdout: () => undefined,
    stderr: (text) => {
      stderr += text;
    },
    stdin: () => Readable.from([]),
    isTerminal: true,
    ...(stderrColumns !== undefined && { stderrColumns }),
    signal: new AbortController().signal,
    now: () => 0,
    env: {},
    connect: async () => client as ApiClient,
    settingsSources: { fragments: [] },
    adapters: async () => commandAdapters,
  });
  await shown('Idle.');
  return { exitCode, stderr };
}

describe('stickpin verify-images on a terminal', () => {
  it('shows the status line of the daemon while it checks, cut to the width, and clears it at the end', async () => {
    const { exitCode, stderr } = await onTerminal(40);
    expect(exitCode).toBe(0);
    expect(stderr).toBe(
      [
        '\rChecking the content of images: 0/2\u001b[K',
        '\rChecking the content of …, 5.0 GiB read\u001b[K',
        '\r\u001b[K',
      ].join(''),
    );
  });

  it('shows nothing where stderr is no terminal', async () => {
    expect((await onTerminal()).stderr).toBe('');
  });
});
