import { spawnSync } from 'node:child_process';
import { linkSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { TarMeter } from '../../../../src/factory/layers/tar-walker.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { tarArchive } from '../../../support/bundles/tar-archive.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

function measure(bytes: Uint8Array, cuts: readonly number[] = []) {
  const meter = new TarMeter();
  let at = 0;
  for (const cut of [...cuts, bytes.length]) {
    meter.write(bytes.subarray(at, Math.max(at, cut)));
    at = Math.max(at, cut);
  }
  meter.end();
  return { diskBytes: meter.diskBytes, inodes: meter.inodes };
}

const archive = tarArchive([
  { path: 'opt/' },
  { path: 'opt/empty' },
  { path: 'opt/one', bytes: Buffer.alloc(1) },
  { path: 'opt/block', bytes: Buffer.alloc(4096) },
  { path: 'opt/more', bytes: Buffer.alloc(4097) },
]);
const expected = { inodes: 5, diskBytes: 4096 + 4096 + 8192 };

describe('TarMeter', () => {
  it('rounds each file up to 4 KiB and counts every member', () => {
    expect(measure(archive)).toEqual(expected);
  });

  it('does not care where the bytes are cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(archive.length), { maxLength: 20 }), (cuts) => {
        expect(
          measure(
            archive,
            cuts.sort((a, b) => a - b),
          ),
        ).toEqual(expected);
      }),
    );
  });

  it('takes an archive without its end blocks and one with anything behind them', () => {
    expect(measure(archive.subarray(0, -1024))).toEqual(expected);
    expect(measure(Buffer.concat([archive, Buffer.from('anything')]))).toEqual(expected);
    expect(measure(Buffer.alloc(0))).toEqual({ inodes: 0, diskBytes: 0 });
  });

  it.each([1, 511, 513, 2049, 3000])('refuses an archive that is cut off after %i bytes', (length) => {
    expect(() => measure(archive.subarray(0, length))).toThrow(expect.objectContaining({ code: 'bundle/tar' }));
  });

  it('throws only AppError, for any bytes', () => {
    const damaged = fc.tuple(fc.nat(archive.length - 1), fc.nat(255)).map(([at, byte]) => {
      const copy = Buffer.from(archive);
      copy[at] = byte;
      return copy;
    });
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 2000 }), damaged), (bytes) => {
        try {
          measure(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(AppError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("archives of the system's own tar", () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder();
    const tree = join(folder, 'tree');
    mkdirSync(join(tree, 'd'.repeat(120), 'e'.repeat(150)), { recursive: true });
    writeFileSync(join(tree, 'd'.repeat(120), 'e'.repeat(150), 'deep'), 'x');
    writeFileSync(join(tree, 'file'), Buffer.alloc(5000, 1));
    linkSync(join(tree, 'file'), join(tree, 'hard'));
    symlinkSync('s'.repeat(200), join(tree, 'soft'));
    writeFileSync(join(tree, 'sparse'), '');
    truncateSync(join(tree, 'sparse'), 1024 * 1024);
    writeFileSync(join(tree, 'ünïcödé'), '');
  });

  // Members: ., two directories, deep, file (and hard, no inode of its own), soft, sparse, ünïcödé.
  const want = { inodes: 8, diskBytes: 4096 + 8192 + 1024 * 1024 };

  it.each([
    ['gnu', []],
    ['gnu', ['--sparse']],
    ['posix', []],
    ['posix', ['--sparse', '--sparse-version=1.0']],
    ['posix', ['--sparse', '--sparse-version=0.1']],
    ['oldgnu', ['--sparse']],
  ])('are read: %s %s', (format, options) => {
    const run = spawnSync('tar', [`--format=${format}`, ...options, '-c', '-C', join(folder, 'tree'), '.'], {
      maxBuffer: 2 ** 26,
    });
    expect(run.stderr.toString()).toBe('');
    expect(measure(run.stdout)).toEqual(want);
  });
});
