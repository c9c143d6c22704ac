import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../src/domain/model/digest.ts';
import type { ReleaseFile, ReleaseFiles } from '../../../src/ports/blobs.ts';
import { createReleaseFiles } from '../../../src/store/files/release-files.ts';
import { digestOf } from '../../support/daemon/scenario.ts';

const never = new AbortController().signal;
const [first, second] = [digestOf('first'), digestOf('second')];
let base: string;
let root: string;
let files: ReleaseFiles;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'stickpin-releases-'));
  root = join(base, 'releases');
  files = createReleaseFiles(root);
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function file(name: string, content: string, digestOfContent = content): ReleaseFile {
  const hex = createHash('sha256').update(digestOfContent).digest('hex');
  return {
    name,
    digest: digestFromHex(hex),
    read: async function* () {
      yield Buffer.from(content);
    },
    linkTo: async () => false,
  };
}

describe('createReleaseFiles', () => {
  it('installs files, lists their bundle, and removes them', async () => {
    expect(await files.list(never)).toEqual(new Map());
    await files.install('ocp/4.13.7', first, [file('a.txt', 'a'), file('b.yaml', 'b')], never);
    expect(readFileSync(join(root, 'ocp/4.13.7/a.txt'), 'utf8')).toBe('a');
    expect(await createReleaseFiles(root).list(never)).toEqual(new Map([['ocp/4.13.7', first]]));
    await files.remove('ocp/4.13.7', never);
    await files.remove('ocp/4.13.7', never);
    expect(readdirSync(root)).toEqual([]);
  });

  it('replaces the files of another bundle as a whole', async () => {
    await files.install('x/1', first, [file('old.txt', 'old')], never);
    await files.install('x/1', second, [file('new.txt', 'new')], never);
    expect(readdirSync(join(root, 'x/1')).sort()).toEqual(['.bundle', 'new.txt']);
    expect([readdirSync(root), readdirSync(join(root, 'x'))]).toEqual([['x'], ['1']]);
  });

  it('leaves nothing of what is damaged, and what was there before as it was', async () => {
    await files.install('x/1', first, [file('old.txt', 'old')], never);
    const damaged = [file('good.txt', 'good'), file('bad.txt', 'bad', 'other')];
    await expect(files.install('x/1', second, damaged, never)).rejects.toMatchObject({ code: 'store/attachment' });
    expect([readdirSync(root), readdirSync(join(root, 'x'))]).toEqual([['x'], ['1']]);
    expect(readdirSync(join(root, 'x/1')).sort()).toEqual(['.bundle', 'old.txt']);
  });

  it('sweeps up what a crash left behind', async () => {
    mkdirSync(join(root, '.staged-x@1'), { recursive: true });
    writeFileSync(join(root, '.staged-x@1/half'), 'h');
    await files.install('x/1', first, [file('a.txt', 'a')], never);
    expect(readdirSync(join(root, 'x/1')).sort()).toEqual(['.bundle', 'a.txt']);
  });

  it('removes nothing after an abort', async () => {
    await files.install('x/1', first, [file('a.txt', 'a')], never);
    const stopped = AbortSignal.abort(new Error('stop'));
    await expect(files.remove('x/1', stopped)).rejects.toThrow('stop');
    expect([...(await files.list(never)).keys()]).toEqual(['x/1']);
  });

  it('does not touch a folder that is not ours', async () => {
    mkdirSync(join(root, 'x/1'), { recursive: true });
    writeFileSync(join(root, 'x/1/mine'), 'm');
    expect(await files.list(never)).toEqual(new Map());
    await expect(files.install('x/1', first, [file('a.txt', 'a')], never)).rejects.toMatchObject({
      code: 'store/release-files',
    });
    await files.remove('x/1', never);
    expect(readdirSync(join(root, 'x/1'))).toEqual(['mine']);
  });
});
