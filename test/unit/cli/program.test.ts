import { describe, expect, it } from 'vitest';
import { exitCodeOf } from '../../../src/cli/context/cli-error.ts';
import type { CommandAdapters } from '../../../src/cli/context/command-adapters.ts';
import { messageOf } from '../../../src/cli/program.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { runCommand } from '../../support/run-command.ts';

const denied = new AppError({ code: 'api/denied', message: 'Only root may do this', disposition: 'reject' });

describe('a fault on stderr', () => {
  it.each([['status'], ['nonsense']])('has a colour on a terminal only: stickpin %s', async (name) => {
    const env = { DBUS_SYSTEM_BUS_ADDRESS: 'unix:path=/nonexistent/bus' };
    const adapters = { storedState: { report: async () => undefined } } as unknown as CommandAdapters;
    const said = async (terminal: object) => (await runCommand([name], { env, adapters, terminal })).stderr;
    const plain = await said({ stderrHasColour: true });
    expect(plain).toMatch(/^stickpin: /);
    const [first = ''] = (await said({ stderrColumns: 500, stderrHasColour: true })).split('\n');
    expect(first).toBe(`\u001b[1;31m${plain.trimEnd()}\u001b[0m`);
    expect(await said({ stderrColumns: 500 })).toBe(plain);
  });
});

describe('a command that only root may run', () => {
  it('prints the same command line with sudo, quoted for a shell, and has its own exit code', () => {
    expect(messageOf(denied, ['activate', 'ocp@4.13.7'], {})).toBe(
      'Only root may do this. Run: sudo stickpin activate ocp@4.13.7',
    );
    expect(messageOf(denied, ['load', "/mnt/Bob's stick"], {})).toMatch(/ load '\/mnt\/Bob'\\''s stick'$/);
    expect(exitCodeOf(denied)).toBe(5);
  });

  it('tells root that the D-Bus policy is missing', () => {
    expect(messageOf(denied, ['cancel'], { isRoot: true })).toMatch(/io\.stickpin1\.conf.*install\.sh/);
  });

  it('leaves other errors as they are', () => {
    expect(messageOf(new Error('no'), ['cancel'], {})).toBe('no');
  });
});

describe('a line on stderr', () => {
  const message = 'no bundle ocp@4.13.9 is known here or plugged in; list shows those that are, with reasons';
  const client = {
    cancel: () => Promise.reject(new AppError({ code: 'engine/no-bundle', message, disposition: 'reject' })),
  };

  it('is broken between words on a terminal, and is one line elsewhere', async () => {
    const { exitCode, stderr } = await runCommand(['cancel'], { client, terminal: { stderrColumns: 80 } });
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr:
        'stickpin: no bundle ocp@4.13.9 is known here or plugged in; list shows those\n    that are, with reasons\n',
    });
    expect((await runCommand(['cancel'], { client })).stderr).toBe(`stickpin: ${message}\n`);
    const usage = await runCommand(['show', '--no-such-flag', 'ocp'], { terminal: { stderrColumns: 40 } });
    expect(usage.exitCode).toBe(2);
    for (const line of usage.stderr.split('\n')) expect(line.length).toBeLessThanOrEqual(40);
  });
});
