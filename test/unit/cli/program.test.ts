import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { exitCodeOf } from '../../../src/cli/context/cli-error.ts';
import type { CommandAdapters } from '../../../src/cli/context/command-adapters.ts';
import { messageOf } from '../../../src/cli/program.ts';
import { NODE_DOCUMENTS } from '../../../src/cli/schema/documents.ts';
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

describe('a fault with --json', () => {
  const failed = (code: string, message: string) => ({
    cancel: () => Promise.reject(new AppError({ code, message, disposition: 'reject' })),
  });
  async function documentOf(args: readonly string[], options: Parameters<typeof runCommand>[1] = {}) {
    const { exitCode, stdout, stderr } = await runCommand(args, options);
    const document = JSON.parse(stdout);
    expect(v.is(NODE_DOCUMENTS.error, document)).toBe(true);
    expect(document.error.exitCode).toBe(exitCode);
    expect(stderr).toBe(`stickpin: ${document.error.message}\n`);
    return document.error;
  }

  it('is one document on stdout, with the line of stderr in it', async () => {
    const gone = { client: failed('engine/no-bundle', 'no bundle\nis plugged in') };
    expect(await documentOf(['cancel', '--json'], gone)).toEqual({
      code: 'engine/no-bundle',
      message: 'no bundle is plugged in',
      exitCode: 1,
    });
    const removed = { client: failed('media/gone', 'sdb1 was removed') };
    expect(await documentOf(['cancel', '--json'], removed)).toMatchObject({ shortCode: 'M-06' });
    const refused = { client: failed('api/denied', 'Only root may do this') };
    expect(await documentOf(['cancel', '--json'], refused)).toMatchObject({ code: 'api/denied', exitCode: 5 });
    expect((await runCommand(['cancel'], gone)).stdout).toBe('');
  });

  it.each([
    [['cancel', '--json', '--no-such-flag'], "unknown option '--no-such-flag'; see 'stickpin cancel --help'"],
    [['show', '--json'], "missing required argument 'bundle'; see 'stickpin show --help'"],
    [['nonsense', '--json'], "unknown command 'nonsense'; see 'stickpin --help'"],
    [
      ['bundle', 'verify', 'x', '--json'],
      "required option '--keys <file|dir>' not specified; see 'stickpin bundle verify --help'",
    ],
  ])('says what is wrong with %j', async (args, message) => {
    expect(await documentOf(args)).toEqual({ code: 'cli/usage', message, exitCode: 2 });
  });

  it('names what was interrupted, and what is unexpected', async () => {
    const signal = AbortSignal.abort();
    const client = { cancel: () => Promise.reject(new Error('no\u001b[31m')) };
    expect(await documentOf(['cancel', '--json'], { client, signal })).toEqual({
      code: 'cli/interrupted',
      message: 'interrupted',
      exitCode: 1,
    });
    expect(await documentOf(['cancel', '--json'], { client })).toMatchObject({ code: 'cli/unexpected', exitCode: 1 });
  });

  it('leaves help alone, and what is behind --', async () => {
    expect((await runCommand(['cancel', '--json', '--help'])).stdout).toMatch(/^Usage: stickpin cancel/);
    expect((await runCommand(['nonsense', '--', '--json'])).stdout).toBe('');
  });
});
