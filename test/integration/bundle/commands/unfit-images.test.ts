import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type OddImage, oddImage } from '../../../support/bundles/odd-images.ts';
import { hostArch, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { writeOciLayout } from '../../../support/bundles/sample-image.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { runCommand } from '../../../support/run-command.ts';

const work = folderForEach();
const at = (name: string) => join(work, name);
const NAME = 'quay.example.com/x/it:1';
const key = sampleKey();
const env = { ...process.env, COLUMNS: '10000' };

async function create(image: OddImage, ...more: string[]) {
  writeOciLayout(at('layout'), [{ image: oddImage('it', image), names: ['it'] }]);
  writeFileSync(at('key'), key.privatePem);
  mkdirSync(at('keys.d'));
  writeFileSync(join(at('keys.d'), 'factory.pub'), key.publicPem);
  const flags = ['--name', 'ocp', '--version', '1.0.0', '--arch', hostArch, '--sequence', '1', '--key', at('key')];
  const source = ['--image', `${NAME}=oci:${at('layout')}:it`];
  return runCommand(['bundle', 'create', ...flags, ...more, '--out', at('out'), ...source], { env });
}

describe('an image that some runtimes can not use', () => {
  const zstd: OddImage = { form: 'Docker', layers: ['docker gzip', 'docker zstd'] };
  const said =
    "quay.example.com/x/it:1: CRI-O (older), Podman (older) and containerd before 2.0 can't use it, since it is an image of the Docker form with a layer of the type application/vnd.docker.image.rootfs.diff.tar.zstd: build it again";

  it('is a warning of create, verify and rehearse, with their names', async () => {
    const made = await create(zstd);
    expect([made.exitCode, made.stderr]).toEqual([0, expect.stringContaining(said)]);
    const verify = ['bundle', 'verify', at('out'), '--full', '--keys', at('keys.d')];
    const verified = await runCommand(verify, { env });
    expect([verified.exitCode, verified.stdout]).toEqual([0, expect.stringContaining(said)]);
    const { stdout } = await runCommand([...verify, '--json'], { env });
    expect(JSON.parse(stdout)).toMatchObject({ verified: true, warnings: [expect.stringContaining(said)] });
    const rehearsed = await runCommand(['bundle', 'rehearse', at('out')], { env });
    expect([rehearsed.exitCode, rehearsed.stdout]).toEqual([0, expect.stringContaining(said)]);
    const json = await runCommand(['bundle', 'rehearse', at('out'), '--json'], { env });
    expect(JSON.parse(json.stdout)).toMatchObject({ loads: true, warnings: [expect.stringContaining(said)] });
  });

  it('is an error with --strict', async () => {
    expect(await create(zstd, '--strict')).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(said) });
  });
});

it('refuses an image that no runtime can use', async () => {
  const made = await create({ form: 'Docker', layers: ['x-gzip'] });
  expect([made.exitCode, made.stderr]).toEqual([
    1,
    expect.stringMatching(
      /no container runtime can use an image: quay\.example\.com\/x\/it:1: CRI-O, Podman, containerd and Docker can't use it/,
    ),
  ]);
});

it('says nothing of images that all can use', async () => {
  const made = await create({ form: 'OCI', layers: ['oci gzip', 'oci zstd', 'docker gzip'] }, '--strict');
  expect([made.exitCode, made.stderr]).toEqual([0, expect.not.stringContaining("can't use")]);
});
