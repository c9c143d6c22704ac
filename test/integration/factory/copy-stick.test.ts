import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeImage, ownMedium } from '../../../src/factory/image/make-image.ts';
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
    expect(`${verified.stdout}${plain.stdout}${rehearsed.stdout}`).not.toContain('stickpin-stick-');
    expect(readdirSync(temporary)).toEqual([]);
    expect(readFileSync(image).equals(bytes)).toBe(true);
  });

  it('is refused where a blob is damaged, by the name that was given', async () => {
    const image = copyOf(at('vfat.img'), 'damaged.img');
    const blobs = `::/${FOLDER}/blobs/sha256`;
    const [first = ''] = readdirSync(at(`medium/${FOLDER}/blobs/sha256`));
    execFileSync('mdel', [...drive(image), `${blobs}/${first}`], quietly());
    const refused = await verify(image);
    expect(refused).toMatchObject(ended(4, image));
    expect(`${refused.stdout}${refused.stderr}`).not.toContain('stickpin-stick-');
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
