import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { writePlainBundle } from '../../support/bundles/plain-bundle.ts';
import { installKeys, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';

const repository = new URL('../../../', import.meta.url).pathname;

describe('the bundled command line', () => {
  const directory = folderForAll();
  let keys: string;
  const key = sampleKey('factory');

  beforeAll(() => {
    execFileSync(process.execPath, ['packaging/build.mjs', join(directory, 'dist')], { cwd: repository });
    for (const name of ['node_modules', 'proto']) symlinkSync(join(repository, name), join(directory, name));
    keys = join(directory, 'keys');
    installKeys(keys, [key]);
  });

  function start(...args: string[]) {
    const child = spawn(process.execPath, [join(directory, 'dist/cli/main.js'), ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (chunk: Buffer) => {
        said[name] += chunk.toString();
      });
    }
    return { child, said, closed: once(child, 'close') };
  }

  it('reads a whole bundle on its threads, and names the blob and the file that are wrong', async () => {
    const path = join(directory, 'small');
    writePlainBundle({ path, key, images: 3, layersPerImage: 5, layer: (at) => Buffer.alloc(at * 300_000, `${at}`) });
    const right = start('bundle', 'verify', path, '--keys', keys, '--full');
    expect(await right.closed).toEqual([0, null]);
    expect(right.said).toEqual({
      stdout: 'plain 1.0.0: signature by factory ok, 21 of 21 blobs read and right\n',
      stderr: '',
    });

    const { contents } = JSON.parse(execFileSync(process.execPath, inspectArgs(path), { encoding: 'utf8' }));
    const { digest } = contents.layers[14];
    const file = join(path, 'blobs', 'sha256', digest.slice('sha256:'.length));
    const bytes = readFileSync(file);
    bytes[4_000_000] = 0;
    writeFileSync(file, bytes);
    const wrong = start('bundle', 'verify', path, '--keys', keys, '--full');
    expect(await wrong.closed).toEqual([4, null]);
    expect(wrong.said.stdout).toContain(`${digest} is damaged: ${file}: it has digest sha256:`);
    expect(wrong.said.stderr).toContain('1 of 21 blobs');
  });

  it('stops in the middle of a large blob when it is interrupted', async () => {
    const path = join(directory, 'hole');
    writePlainBundle({ path, key, images: 1, layersPerImage: 1, holeBytes: 2 ** 42 });
    const { child, said, closed } = start('bundle', 'verify', path, '--keys', keys, '--full');
    await eventually(
      () => expect(openFilesOf(child.pid)).toContain(join(path, 'blobs/sha256', '0'.repeat(64))),
      20_000,
    );
    child.kill('SIGINT');
    expect(await closed).toEqual([1, null]);
    expect(said).toEqual({ stdout: '', stderr: 'stickpin: interrupted\n' });
  });

  function inspectArgs(path: string): string[] {
    return [join(directory, 'dist/cli/main.js'), 'bundle', 'inspect', path, '--json'];
  }
});

function openFilesOf(pid: number | undefined): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
    } catch {
      return []; // closed meanwhile
    }
  });
}
