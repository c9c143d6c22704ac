import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeImage, ownMedium } from '../../../src/factory/image/make-image.ts';
import { stagingPrefix } from '../../../src/factory/output/staging.ts';
import { installKeys, makeSampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../support/bundles/sample-image.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { have, program } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const tools = [
  ...['mcopy', 'mmd', 'mdir', 'mdu', 'mdel'].map((name) => program(name, 'apt-get install mtools')),
  program('mkfs.vfat', 'apt-get install dosfstools'),
  ...['mkfs.ext4', 'debugfs'].map((name) => program(name, 'apt-get install e2fsprogs')),
];
const MiB = 1024 ** 2;
const FILESYSTEMS = ['vfat', 'ext4'] as const;
const FOLDER = 'stickpin/ocp-4.13.7-amd64';
const key = sampleKey();
const root = folderForAll();
const at = (name: string) => join(root, name);
const temporary = at('tmp');
const env = { TMPDIR: temporary };
const run = (...args: string[]) => runCommand(['bundle', ...args], { env });
const verify = (path: string, ...more: string[]) => run('verify', path, '--keys', at('keys'), ...more);
/** The partition of an image, as mtools names it. */
const drive = (image: string) => ['-i', `${image}@@${MiB}`];
const quietly = () => ({ stdio: 'ignore', env: { ...process.env, MTOOLS_SKIP_CHECK: '1' } }) as const;

async function imageOf(medium: string, image: string, filesystem: (typeof FILESYSTEMS)[number]): Promise<void> {
  const options = { filesystem, created: '2026-01-01T00:00:00Z', seed: 's', onProgress: () => undefined };
  await makeImage(await ownMedium(medium, options.created), image, options, new AbortController().signal);
}

function copyOf(image: string, name: string): string {
  execFileSync('cp', ['--sparse=always', image, at(name)]);
  return at(name);
}

function writeEmpty(path: string): string {
  writeFileSync(path, '');
  return path;
}

describe.runIf(have(...tools))('a stick or its image in place of a bundle', () => {
  beforeAll(async () => {
    for (const folder of ['medium/stickpin', 'medium-2/stickpin', 'none/other'])
      mkdirSync(at(folder), { recursive: true });
    mkdirSync(temporary);
    installKeys(at('keys'), [key]);
    const image = sampleImage({ seed: 'etcd', architecture: 'amd64' });
    const images = [{ reference: 'quay.example.com/coreos/etcd:3.5.9', component: 'etcd', image }];
    const { path } = await makeSampleBundle({ dir: root, arch: 'amd64', images, keys: [key] });
    execFileSync('cp', ['-r', path, at(`medium/${FOLDER}`)]);
    for (const name of ['a', 'b']) execFileSync('cp', ['-r', path, at(`medium-2/stickpin/${name}`)]);
    for (const filesystem of FILESYSTEMS) {
      await imageOf(at('medium'), at(`${filesystem}.img`), filesystem);
      await imageOf(at('none'), at(`none-${filesystem}.img`), filesystem);
    }
    await imageOf(at('medium-2'), at('several.img'), 'vfat');
  });

  const before = () => expect(readdirSync(temporary)).toEqual([]);
  beforeEach(before);

  it.each(FILESYSTEMS)('is verified, inspected and rehearsed: %s', async (filesystem) => {
    const image = at(`${filesystem}.img`);
    const bytes = readFileSync(image);
    const verified = await verify(image, '--full', '--json');
    expect(verified).toMatchObject({ exitCode: 0, stderr: '' });
    const [bundle] = JSON.parse(verified.stdout).bundles;
    expect(bundle).toMatchObject({ path: `${image}/${FOLDER}`, verified: true, missing: [] });
    const plain = await verify(image);
    expect(plain.stdout).toContain(`${FOLDER}: ocp 4.13.7 for amd64, sequence 1: signature by factory-2026 ok`);
    expect(plain.stderr).toBe(`Copying the folder stickpin of ${image} to ${temporary}\n`);
    expect(JSON.parse((await run('inspect', image, '--json')).stdout)).toMatchObject({ payload: { name: 'ocp' } });
    const rehearsed = await run('rehearse', image, '--keys', at('keys'));
    expect(rehearsed).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('Verdict: ocp 4.13.7 loads') });
    expect(`${verified.stdout}${plain.stdout}${rehearsed.stdout}`).not.toContain('stickpin-stick');
    expect(readdirSync(temporary)).toEqual([]);
    expect(readFileSync(image).equals(bytes)).toBe(true);
  });

  it('is verified where small files are in their inodes (inline_data)', async () => {
    const image = at('inline.img');
    truncateSync(writeEmpty(image), 64 * MiB);
    execFileSync('mkfs.ext4', ['-q', '-O', 'inline_data', '-d', at('medium'), image], quietly());
    expect(await verify(image, '--full')).toMatchObject({ exitCode: 0 });
  });

  it('is refused where a blob is damaged, by the name that was given', async () => {
    const image = copyOf(at('vfat.img'), 'damaged.img');
    const blobs = `::/${FOLDER}/blobs/sha256`;
    const [first = ''] = readdirSync(at(`medium/${FOLDER}/blobs/sha256`));
    execFileSync('mdel', [...drive(image), `${blobs}/${first}`], quietly());
    const refused = await verify(image);
    expect(refused).toMatchObject(ended(4, image));
    expect(`${refused.stdout}${refused.stderr}`).not.toContain('stickpin-stick');
    expect(readdirSync(temporary)).toEqual([]);
  });

  it.each(FILESYSTEMS)('is refused without a folder stickpin: %s', async (filesystem) => {
    const image = at(`none-${filesystem}.img`);
    expect(await verify(image)).toMatchObject(ended(1, `${image}: it has no folder stickpin`));
  });

  it('is refused with other filesystems, with none, and when it is damaged or not there', async () => {
    writeFileSync(at('empty.img'), Buffer.alloc(MiB));
    expect(await verify(at('empty.img'))).toMatchObject(ended(1, 'it has no filesystem that is known'));
    writeFileSync(at('short.img'), 'x');
    expect(await verify(at('short.img'))).toMatchObject(ended(1, 'it has no filesystem that is known'));
    const foreign = copyOf(at('vfat.img'), 'exfat.img');
    const head = Buffer.alloc(512);
    head.write('EXFAT   ', 3);
    execFileSync('dd', [`of=${foreign}`, 'bs=1M', 'seek=1', 'conv=notrunc', 'status=none'], { input: head });
    expect(await verify(foreign)).toMatchObject(ended(1, 'partition 1 has exfat, and only vfat and ext4 are read'));
    for (const filesystem of FILESYSTEMS) {
      const cut = copyOf(at(`${filesystem}.img`), `cut-${filesystem}.img`);
      truncateSync(cut, MiB + 8192);
      const { exitCode, stderr } = await verify(cut);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(`stickpin: ${cut}: `);
    }
    expect(await verify(at('nowhere.img'))).toMatchObject(ended(1, 'is not there'));
  });

  it('is one bundle for inspect and rehearse, and all of them for verify', async () => {
    const image = at('several.img');
    const refused = await run('inspect', image);
    expect(refused).toMatchObject(ended(1, `${image} holds 2 bundles: name one, as ${image}/stickpin/a`));
    // One sequence twice is a fault of the stick.
    expect((await verify(image)).stdout).toMatch(/stickpin\/a: [\s\S]*stickpin\/b: /);
    expect(await run('inspect', at('medium'))).toMatchObject({ exitCode: 0 });
  });

  it('is refused with two partitions that a node takes for two sticks', async () => {
    const image = copyOf(at('vfat.img'), 'two.img');
    const bytes = readFileSync(image);
    const second = Buffer.from(bytes.subarray(446, 462));
    second.writeUInt32LE(bytes.length / 512, 8);
    bytes.set(second, 462);
    writeFileSync(image, Buffer.concat([bytes, bytes.subarray(MiB)]));
    expect(await verify(image)).toMatchObject(ended(1, 'partition 1 and partition 2 have a folder stickpin each'));
  });

  it('writes no link of a hostile stick, and no name that leads elsewhere', async () => {
    const image = copyOf(at('ext4.img'), 'hostile.img');
    const change = (...commands: string[]) => {
      writeFileSync(at('script'), `${commands.join('\n')}\n`);
      execFileSync('debugfs', ['-w', '-f', at('script'), `${image}?offset=${MiB}`], quietly());
    };
    change('symlink stickpin/link /etc/passwd', `symlink ${FOLDER}/config /etc/passwd`);
    expect(await verify(image, '--full')).toMatchObject({ exitCode: 0 });
    change(`write ${at('script')} "stickpin/a b"`);
    expect(await verify(image)).toMatchObject(ended(1, "'a b' in its folder stickpin has another name"));
  });

  async function withTool(name: string, script: string, act: () => Promise<void>): Promise<void> {
    const folder = at(`fake-${name}`);
    mkdirSync(folder);
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const path = process.env.PATH;
    process.env.PATH = `${folder}:${path}`;
    try {
      await act();
    } finally {
      process.env.PATH = path;
    }
  }

  it('is refused where its files are larger than their list says', async () => {
    const real = execFileSync('sh', ['-c', 'PATH=$PATH:/usr/sbin command -v debugfs'], { encoding: 'utf8' }).trim();
    const forged = `case "$2" in ls*) ${real} "$@" | sed -E 's|/[0-9]+/$|/1/|';; *) exec ${real} "$@";; esac`;
    await withTool('debugfs', forged, async () => {
      expect(await verify(at('ext4.img'))).toMatchObject(ended(1, 'its files are larger than the list of them says'));
    });
  });

  it('is refused where the list of its files does not end, or has an odd line', async () => {
    await withTool('mdir', 'exec yes ::/stickpin/', async () => {
      expect(await verify(at('vfat.img'))).toMatchObject(ended(1, 'mdir: it printed too much'));
    });
    const image = copyOf(at('ext4.img'), 'odd.img');
    mkdirSync(at('odd/stickpin'), { recursive: true });
    writeFileSync(at('odd/stickpin/a\n13'), '');
    const size = execFileSync('stat', ['-c', '%s', image], { encoding: 'utf8' }).trim();
    const place = ['-E', `offset=${MiB}`, image, `${Number(size) / 1024 - 1024}k`];
    execFileSync('mkfs.ext4', ['-q', '-F', '-d', at('odd'), ...place], quietly());
    expect(await verify(image)).toMatchObject(ended(1, "the list of its files has the line '/"));
  });

  it('is refused with a name twice', async () => {
    const image = copyOf(at('vfat.img'), 'twice.img');
    for (const name of ['QQQ1', 'QQQ2']) execFileSync('mmd', [...drive(image), `::/stickpin/${name}`], quietly());
    writeFileSync(image, readFileSync(image, 'latin1').replace('QQQ2 ', 'QQQ1 '), 'latin1');
    expect(await verify(image)).toMatchObject(ended(1, "'QQQ1' is twice in its folder stickpin"));
  });

  it('is copied to a folder with a blank in its name', async () => {
    mkdirSync(at('with blank'));
    const options = { env: { TMPDIR: at('with blank') } };
    for (const filesystem of FILESYSTEMS) {
      const args = ['bundle', 'verify', at(`${filesystem}.img`), '--keys', at('keys'), '--full'];
      expect(await runCommand(args, options)).toMatchObject({ exitCode: 0 });
    }
    expect(readdirSync(at('with blank'))).toEqual([]);
  });

  it('removes the copy that a killed process left', async () => {
    // Of an earlier boot.
    const own = await stagingPrefix(join(temporary, 'stickpin-stick'));
    const prefix = own.replace(/(\.partial-\w{8})-\w{8}-/, '$1-00000000-');
    mkdirSync(`${prefix}abcDEF`);
    expect(await verify(at('vfat.img'))).toMatchObject({ exitCode: 0 });
    expect(readdirSync(temporary)).toEqual([]);
  });

  it('leaves nothing behind when it is interrupted', async () => {
    mkdirSync(at('bin'));
    writeFileSync(at('bin/mcopy'), `#!/bin/sh\ntouch ${at('started')}\nexec sleep 1000\n`, { mode: 0o755 });
    const path = process.env.PATH;
    process.env.PATH = `${at('bin')}:${path}`;
    try {
      const stop = new AbortController();
      const running = runCommand(['bundle', 'inspect', at('vfat.img')], { env, signal: stop.signal });
      await eventually(() => existsSync(at('started')) || Promise.reject(new Error('not started')));
      stop.abort();
      expect(await running).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('stickpin: interrupted\n') });
      expect(readdirSync(temporary)).toEqual([]);
    } finally {
      process.env.PATH = path;
    }
  });
});

const loops = { name: 'loop devices', isMet: () => existsSync('/dev/loop-control'), remedy: 'modprobe loop' };

describe.runIf(have('root', loops, ...tools))('a plugged stick', () => {
  it('is read by its device', async () => {
    const attach = ['--find', '--show', '--read-only', at('ext4.img')];
    const device = execFileSync('losetup', attach, { encoding: 'utf8' }).trim();
    try {
      const verified = await verify(device, '--full');
      expect(verified).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`${FOLDER}: ocp 4.13.7`) });
      expect(readdirSync(temporary)).toEqual([]);
    } finally {
      execFileSync('losetup', ['--detach', device]);
    }
  });
});
