import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { NOON, stored, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';

const repository = new URL('../../../', import.meta.url).pathname;
const current = stored(verified(), { readyAt: NOON, activatedAt: NOON });
const fallback = stored(verified({ version: '4.13.6', sequence: 6 }), { readyAt: 1, activatedAt: 1, provenAt: 2 });
const older = stored(verified({ version: '4.13.5', sequence: 5, images: { old: ['old'] } }), {
  readyAt: 1,
  activatedAt: 1,
  provenAt: 1,
});
const fact = 'ocp@4.13.7 is the release that was activated last of ocp, and the node may be running it';

describe.runIf(have('dbus-daemon', program('script', 'apt-get install bsdutils')))('unpin over the bus', () => {
  let api: ApiOnBus;
  const directory = folderForAll();
  let node: FakeNode;

  beforeAll(async () => {
    execFileSync(process.execPath, ['packaging/build.mjs', join(directory, 'dist')], { cwd: repository });
    for (const name of ['node_modules', 'proto']) symlinkSync(join(repository, name), join(directory, name));
    api = await startApiOnBus({
      unpin: ({ bundle, options }, { signal }) => node.engine.commands.unpin({ bundle, ...options }, signal),
    });
  });
  afterAll(async () => {
    await api[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    node = createFakeNode([older, fallback, current]);
  });
  const retired = () => node.store.rows.filter(({ kind }) => kind === 'bundleRetired').map(({ message }) => message);

  const run = (...args: readonly string[]) => api.run(...args);

  /**
   * The program that is installed, on a terminal of its own; what a person types there comes when
   * it has asked.
   */
  async function atTerminal(typed: string, ...args: readonly string[]) {
    // In place of the shell that `script` starts, which would meet Ctrl-C in a way of its own.
    const command = ['exec', process.execPath, join(directory, 'dist/cli/main.js'), ...args].join(' ');
    const env = { ...process.env, DBUS_SYSTEM_BUS_ADDRESS: api.address };
    const child = spawn('script', ['-qec', command, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
    const closed = once(child, 'close');
    let shown = '';
    child.stdout.on('data', (chunk: Buffer) => {
      const hadAsked = shown.includes('[y/N] ');
      shown += chunk.toString();
      if (!hadAsked && shown.includes('[y/N] ')) child.stdin.write(typed);
    });
    const [exitCode] = await closed;
    return { exitCode, shown: shown.replaceAll('\r\n', '\n') };
  }

  it('needs no question for a release that is neither activated nor the last known good one', async () => {
    expect(await run('unpin', 'ocp@4.13.5')).toEqual({
      exitCode: 0,
      stdout: 'ocp@4.13.5 is no longer pinned.\n',
      stderr: '',
    });
    expect(retired()).toEqual(['ocp 4.13.5 was unpinned by hand']);
  });

  it('refuses without a terminal, with what to say', async () => {
    const stderr = `stickpin: ${fact}; it is unpinned by force only; nothing was changed. Give --force to do it anyway\n`;
    expect(await run('unpin', 'ocp@4.13.7')).toEqual({ exitCode: 1, stdout: '', stderr });
    expect(retired()).toEqual([]);
    expect((await run('unpin', 'ocp@4.13.7', '--force')).exitCode).toBe(0);
    expect(retired()).toEqual(['ocp 4.13.7 was unpinned by hand']);
  });

  it('refuses a release that has just started to run', async () => {
    const [image = expect.unreachable()] = older.contents.images;
    node.runtime.images.set(image.reference, image.reference);
    node.runtime.startContainer('pod/etcd', image.reference);
    const runs = 'containers run from images that only ocp@4.13.5 has';
    const stderr = `stickpin: ${runs}; it is unpinned by force only; nothing was changed. Give --force to do it anyway\n`;
    expect(await run('unpin', 'ocp@4.13.5')).toEqual({ exitCode: 1, stdout: '', stderr });
    expect(retired()).toEqual([]);
  });

  it('asks at a terminal, and unpins after a yes', async () => {
    const { exitCode, shown } = await atTerminal('y\n', 'unpin', 'ocp@4.13.7', '--remove-images');
    expect(shown.replaceAll('\n', ' ')).toContain(
      `If you unpin ocp@4.13.7, its images are removed. But ${fact}; it is unpinned by force only. Unpin it anyway? [y/N] `,
    );
    expect(shown).toContain('ocp@4.13.7 is no longer pinned.\n');
    expect(exitCode).toBe(0);
    expect(retired()).toEqual(['ocp 4.13.7 was unpinned by hand, with the images that only it has']);
  });

  it.each([
    { what: 'a no', typed: 'n\n' },
    { what: 'nothing but Enter', typed: '\n' },
    { what: 'the end of the input (Ctrl-D)', typed: '\u0004' },
  ])('changes nothing after $what', async ({ typed }) => {
    const { exitCode, shown } = await atTerminal(typed, 'unpin', 'ocp@4.13.6');
    expect(shown.replaceAll('\n', ' ')).toContain('ocp@4.13.6 is the last known good release of ocp');
    expect(shown.split('\n')).toContain('stickpin: nothing was changed: ocp@4.13.6 stays pinned');
    expect(exitCode).toBe(1);
    expect(retired()).toEqual([]);
  });

  it('changes nothing when it is interrupted (Ctrl-C)', async () => {
    const { exitCode, shown } = await atTerminal('\u0003', 'unpin', 'ocp@4.13.7');
    expect(shown).toContain('stickpin: interrupted\n');
    expect(exitCode).toBe(1);
    expect(retired()).toEqual([]);
  });
});
