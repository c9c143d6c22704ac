import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { effectivePins, readCrioConfig } from '../../../../src/runtime/crio/crio-config.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const signal = AbortSignal.timeout(60_000);
const base = folderForEach();

function put(path: string, text: string): string {
  const file = join(base, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

function pinning(...pins: string[]): string {
  return `[crio.image]\npinned_images = ${JSON.stringify(pins)}\n`;
}

async function walk() {
  const paths = {
    configPath: join(base, 'crio.conf'),
    configDirectory: join(base, 'crio.conf.d'),
    linkPath: join(base, 'crio.conf.d/99-stickpin.conf'),
  };
  return effectivePins(await readCrioConfig(paths, signal), paths);
}

describe('the walk over the configuration of CRI-O', () => {
  it('finds nothing without a configuration', async () => {
    expect(await walk()).toEqual({ pins: [], shadowing: [], faults: [] });
  });

  it('uses the whole list of the last file that sets it (docs/runtime-facts.md, fact 4)', async () => {
    put('crio.conf', pinning('main'));
    put('crio.conf.d/10-a.conf', pinning('a', 'b'));
    const last = put('crio.conf.d/20-b.conf', pinning('c'));
    put('crio.conf.d/30-c.conf', '[crio.runtime]\nlog_level = "info"\n');
    expect((await walk()).pins).toEqual([{ pin: 'c', file: last }]);
  });

  it('reads hidden files, any suffix and directories, in the order of a walk (docs/runtime-facts.md, fact 1)', async () => {
    put('crio.conf.d/.hidden', pinning('hidden'));
    expect((await walk()).pins.map(({ pin }) => pin)).toEqual(['hidden']);
    put('crio.conf.d/50/z.txt', pinning('nested'));
    expect((await walk()).pins.map(({ pin }) => pin)).toEqual(['nested']);
    // As whole paths, 50-a sorts before 50/z; a walk visits the directory 50 first.
    put('crio.conf.d/50-a', pinning('beside'));
    expect((await walk()).pins.map(({ pin }) => pin)).toEqual(['beside']);
  });

  it('ignores pinned_images at top level (docs/runtime-facts.md, fact 3)', async () => {
    put('crio.conf.d/10-a.conf', 'pinned_images = ["a"]\n');
    expect(await walk()).toEqual({ pins: [], shadowing: [], faults: [] });
  });

  it('lets an empty list override earlier pins', async () => {
    put('crio.conf.d/10-a.conf', pinning('a'));
    put('crio.conf.d/20-b.conf', pinning());
    expect((await walk()).pins).toEqual([]);
  });

  it('ignores our own link, and names a later file that sets pins', async () => {
    const ours = put('run/99-stickpin.conf', pinning('ours'));
    put('crio.conf.d/10-a.conf', pinning('a'));
    symlinkSync(ours, join(base, 'crio.conf.d/99-stickpin.conf'));
    expect((await walk()).pins.map(({ pin }) => pin)).toEqual(['a']);
    const behind = put('crio.conf.d/99-z.conf', pinning('z'));
    expect(await walk()).toEqual({ pins: [{ pin: 'z', file: behind }], shadowing: [behind], faults: [] });
  });

  it('does not report our own dangling link as a fault', async () => {
    mkdirSync(join(base, 'crio.conf.d'));
    symlinkSync(join(base, 'nowhere'), join(base, 'crio.conf.d/99-stickpin.conf'));
    expect((await walk()).faults).toEqual([]);
  });

  it('names files that CRI-O can not read (docs/runtime-facts.md, fact 2)', async () => {
    const syntax = put('crio.conf.d/10-a.conf', '[crio.image]\npinned_images = [\n');
    const type = put('crio.conf.d/20-b.conf', '[crio.image]\npinned_images = "a"\n');
    const dangling = join(base, 'crio.conf.d/30-c.conf');
    symlinkSync(join(base, 'nowhere'), dangling);
    const directory = join(base, 'crio.conf.d/40-d.conf');
    symlinkSync(base, directory);
    const { faults } = await walk();
    expect(faults.map(({ file }) => file)).toEqual([syntax, type, dangling, directory]);
    expect(faults.map(({ reason }) => reason)).toEqual([
      'line 3: the file ends too early',
      'pinned_images must be a list of strings',
      expect.stringMatching(/^no such file or directory \(ENOENT/),
      expect.stringMatching(/^it is a directory \(EISDIR/),
    ]);
  });
});
