import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { makeImage, ownMedium } from '../../../src/factory/image/make-image.ts';
import { installKeys, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { blocksBelow, runBlocks, stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { eventually } from '../../support/eventually.ts';
import { entriesBelow } from '../../support/files/entries-below.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded, ended } from '../../support/matching.ts';
import { have, program } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const tools = [
  ...['mcopy', 'mmd'].map((name) => program(name, 'apt-get install mtools')),
  program('sfdisk', 'apt-get install fdisk'),
  ...['mkfs.vfat', 'fsck.vfat'].map((name) => program(name, 'apt-get install dosfstools')),
  ...['mkfs.ext4', 'e2fsck', 'debugfs'].map((name) => program(name, 'apt-get install e2fsprogs')),
];
const key = sampleKey();
const MiB = 1024 ** 2;
const { signal } = new AbortController();
const root = folderForEach();
const at = (name: string) => join(root, name);

beforeEach(() => {
  chmodSync(root, 0o755);
  writeFileSync(at('factory.key'), key.privatePem);
  installKeys(at('keys'), [key]);
  writeOciLayout(at('layout'), [
    { image: sampleImage({ seed: 'etcd', architecture: 'amd64' }), names: ['etcd'] },
    { image: sampleImage({ seed: 'proxy', architecture: 'amd64', withIndex: true }), names: ['proxy'] },
  ]);
});

const NAMED = ['--name', 'ocp', '--version', '4.13.7+x', '--arch', 'amd64', '--sequence', '7'] as const;
const images = () => [
  ...['--image', `quay.example.com/coreos/etcd:3.5.9=oci:${at('layout')}:etcd`],
  ...['--image', `quay.example.com/edge/proxy:1=oci:${at('layout')}:proxy`],
];
const create = (out: string, ...more: string[]) =>
  runCommand(['bundle', 'create', ...NAMED, '--out', out, ...images(), '--key', at('factory.key'), ...more]);
const FOLDER = 'stickpin/ocp-4.13.7+x-amd64';

/** Takes the filesystem out of an image, checks it, and copies its files to a folder. */
function unpack(image: string, filesystem: string, to: string): void {
  const [partition] = JSON.parse(execFileSync('sfdisk', ['--json', image], { encoding: 'utf8' })).partitiontable
    .partitions;
  expect(partition.start * 512).toBe(MiB);
  expect(partition.start * 512 + partition.size * 512).toBe(statSync(image).size);
  expect(partition.type).toBe(filesystem === 'vfat' ? 'c' : '83');
  const file = `${image}.partition`;
  execFileSync('dd', [`if=${image}`, `of=${file}`, 'bs=1M', 'skip=1', 'conv=sparse', 'status=none']);
  mkdirSync(to);
  const check = filesystem === 'vfat' ? ['fsck.vfat', '-n', file] : ['e2fsck', '-f', '-n', file];
  const checked = spawnSync(check[0] ?? '', check.slice(1), { encoding: 'utf8' });
  expect({ status: checked.status, output: checked.stdout }).toMatchObject({ status: 0 });
  const type = execFileSync('blkid', ['-p', '-o', 'export', file], { encoding: 'utf8' });
  expect(type).toContain(`TYPE=${filesystem}\n`);
  expect(type).toContain('LABEL=STICKPIN\n');
  if (filesystem === 'vfat') {
    execFileSync('mcopy', ['-s', '-Q', '-i', file, '::/stickpin', to], {
      env: { ...process.env, MTOOLS_SKIP_CHECK: '1' },
    });
  } else execFileSync('debugfs', ['-R', `rdump /stickpin ${to}`, file], { stdio: 'ignore' });
}

describe.runIf(have('openssl', ...tools))('bundle create --filesystem', () => {
  it.each(['vfat', 'ext4'])('makes an image with %s that holds the bundle, the same bytes each time', async (fs) => {
    const made = await create(at('stick.img'), '--filesystem', fs);
    expect(made).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`is in ${at('stick.img')}: 2 images`) });
    unpack(at('stick.img'), fs, at('medium'));
    expect(readdirSync(at('medium/stickpin'))).toEqual(['ocp-4.13.7+x-amd64']);
    const verified = await runCommand(['bundle', 'verify', at(`medium/${FOLDER}`), '--keys', at('keys'), '--full']);
    expect(verified).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('7 of 7 blobs read and right') });
    // Another order of the folder, another umask.
    const before = process.umask(0o077);
    await create(at('again.img'), '--filesystem', fs);
    process.umask(before);
    expect(readFileSync(at('again.img')).equals(readFileSync(at('stick.img')))).toBe(true);
    expect(readdirSync(root).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it.each(['vfat', 'ext4'])('needs no root for %s, as docs/factory.md shows', async (filesystem) => {
    const programs = await stickpinOnPath(at('programs'));
    const blocks = await blocksBelow('docs/factory.md', '### An image that any program can write');
    const [block = ''] = blocks;
    expect(block).toContain('--filesystem vfat');
    const make = block
      .replace('--filesystem vfat', `--filesystem ${filesystem}`)
      .replace(/--images-file \S+/, images().join(' '));
    mkdirSync(at('work'));
    execFileSync('chown', ['-R', '65534:65534', root]);
    writeFileSync(at('make.sh'), make);
    await runBlocks(['cd work', 'cp ../factory.key factory-2026.key', `sh -eu ../make.sh`].map(asNobody), {
      directory: root,
      programs,
    });
    expect(statSync(at('work/stick.img')).uid).toBe(65534);
    unpack(at('work/stick.img'), filesystem, at('medium'));
  });

  it('makes an image for each volume, none larger than asked for', async () => {
    writeFileSync(at('one'), Buffer.alloc(30 * MiB, 1));
    writeFileSync(at('two'), Buffer.alloc(30 * MiB, 2));
    const more = ['--attach', at('one'), '--attach', at('two'), '--volume-size', '80MiB', '--filesystem', 'ext4'];
    const made = await create(at('out'), ...more);
    expect(made.stdout).toContain(`is in ${at('out')}/1.img to ${at('out')}/2.img:`);
    expect(readdirSync(at('out')).sort()).toEqual(['1.img', '2.img']);
    mkdirSync(at('volumes'));
    for (const volume of ['1', '2']) {
      expect(statSync(at(`out/${volume}.img`)).size).toBeLessThanOrEqual(80 * MiB);
      unpack(at(`out/${volume}.img`), 'ext4', at(`medium-${volume}`));
      execFileSync('cp', ['-r', at(`medium-${volume}/${FOLDER}`), at(`volumes/${volume}`)]);
    }
    const verified = await runCommand(['bundle', 'verify', at('volumes'), '--keys', at('keys'), '--full']);
    expect(verified).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('9 of 9 blobs read and right') });
    const small = await create(at('small'), ...more.map((arg) => (arg === '80MiB' ? '50MiB' : arg)));
    expect(small).toMatchObject(ended(2, '--volume-size 50 MiB is too small'));
  });

  it.each([
    ['an image without a filesystem', ['stick.img'], /add --filesystem vfat or --filesystem ext4/],
    ['another name', ['stick', '--filesystem', 'vfat'], /its name must end in .img/],
    ['volumes in one file', ['stick.img', '--filesystem', 'vfat', '--volume-size', '8GB'], /name a directory/],
    ['a tar', ['x.stickpin.tar', '--filesystem', 'vfat'], /its name must end in .img/],
    ['large blobs on FAT', ['stick.img', '--filesystem', 'vfat', '--allow-large-blobs'], /--filesystem ext4 instead/],
    ['an unknown filesystem', ['stick.img', '--filesystem', 'ntfs'], /Allowed choices are vfat, ext4/],
  ])('refuses %s as wrong usage', async (_name, [out = '', ...more], message) => {
    const { exitCode, stderr } = await create(at(out), ...more);
    expect(stderr).toMatch(message);
    expect(exitCode).toBe(2);
    expect(readdirSync(root).sort()).toEqual(['factory.key', 'keys', 'layout']);
  });

  it('says which programs are missing, and what to install, before anything is read', async () => {
    const path = process.env.PATH;
    process.env.PATH = at('none');
    const { exitCode, stderr } = await create(at('stick.img'), '--filesystem', 'vfat').finally(() => {
      process.env.PATH = path;
    });
    expect(exitCode).toBe(1);
    expect(stderr).toBe(
      'stickpin: mmd, mcopy are not installed: install mtools, on Debian with apt-get install mtools\n',
    );
  });

  it('leaves nothing behind when a program fails, or when it is interrupted', async () => {
    mkdirSync(at('bin'));
    mkdirSync(at('out'));
    const out = join(at('out'), 'stick.img');
    const path = process.env.PATH;
    process.env.PATH = `${at('bin')}:${path}`;
    try {
      writeFileSync(at('bin/mcopy'), '#!/bin/sh\necho disk full >&2\nexit 1\n', { mode: 0o755 });
      const failed = await create(out, '--filesystem', 'vfat');
      expect(failed).toMatchObject({ exitCode: 1, stderr: 'stickpin: mcopy: disk full\n' });
      expect(entriesBelow(at('out'))).toEqual([]);
      // debugfs reports errors, and ends with 0 all the same.
      writeFileSync(at('bin/debugfs'), '#!/bin/sh\necho "debugfs 1.0" >&2\necho write: no space >&2\n', {
        mode: 0o755,
      });
      const silent = await create(out, '--filesystem', 'ext4');
      expect(silent).toMatchObject({ exitCode: 1, stderr: 'stickpin: debugfs: write: no space\n' });
      expect(entriesBelow(at('out'))).toEqual([]);
      writeFileSync(at('bin/mcopy'), `#!/bin/sh\ntouch ${at('started')}\nexec sleep 1000\n`, { mode: 0o755 });
      const stop = new AbortController();
      const args = [...NAMED, '--out', out, ...images(), '--key', at('factory.key'), '--filesystem', 'vfat'];
      const running = runCommand(['bundle', 'create', ...args], { signal: stop.signal });
      await eventually(() => statSync(at('started')));
      stop.abort();
      expect(await running).toMatchObject({ exitCode: 1, stderr: 'stickpin: interrupted\n' });
      expect(entriesBelow(at('out'))).toEqual([]);
    } finally {
      process.env.PATH = path;
    }
  });
});

describe.runIf(have(...tools))('an image of a stick', () => {
  it.each(['vfat', 'ext4'] as const)('with %s has room for as many files as fit into a folder of FAT', async (fs) => {
    const folder = at('medium/stickpin/ocp/blobs/sha256');
    mkdirSync(folder, { recursive: true });
    const count = fs === 'vfat' ? 10_922 : 2000;
    for (let number = 0; number < count; number += 1) writeFileSync(join(folder, blobName(number)), 'x');
    const options = { filesystem: fs, created: '2026-01-01T00:00:00Z', seed: 's', onProgress: () => undefined };
    await makeImage(await ownMedium(at('medium'), options.created), at('stick.img'), options, signal);
    unpack(at('stick.img'), fs, at('unpacked'));
    expect(readdirSync(at('unpacked/stickpin/ocp/blobs/sha256'))).toHaveLength(count);
    if (fs === 'ext4') return;
    writeFileSync(join(folder, blobName(count)), 'x');
    await expect(
      makeImage(await ownMedium(at('medium'), options.created), at('more.img'), options, signal),
    ).rejects.toMatchObject(coded('bundle/option', 'use --filesystem ext4'));
  });
});

/** Names of blobs are hashes. */
const blobName = (number: number) => createHash('sha256').update(`${number}`).digest('hex');

/** The same command as the user `nobody`. */
function asNobody(command: string): string {
  return command.startsWith('cd ') ? command : `setpriv --reuid 65534 --regid 65534 --clear-groups ${command}`;
}
