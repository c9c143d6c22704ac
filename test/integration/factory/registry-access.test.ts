import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { makeTls } from '../../support/registry/tls.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const image = sampleImage({ seed: 'it', architecture: 'amd64' });
const fixed = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'];

const work = folderForAll();
let out: string;
beforeEach(() => {
  out = mkdtempSync(join(work, 'out-'));
});

const create = (reference: string, ...more: string[]) =>
  runCommand(['bundle', 'create', ...fixed, '--image', reference, ...more, '--out', join(out, 'bundle')]);

it.runIf(have('skopeo'))('a registry without TLS is named, with the option that takes it', async () => {
  const registry = await startSourceRegistry();
  registry.add('x/it', image, ['1']);
  const { exitCode, stderr } = await create(`${registry.host}/x/it:1`);
  expect({ exitCode, stderr }).toEqual({
    exitCode: 1,
    stderr: expect.stringMatching(/the registry has no TLS: if it is meant to be so, give --tls-verify=false\n$/),
  });
  expect((await create(`${registry.host}/x/it:1`, '--tls-verify=false')).exitCode).toBe(0);
  await registry.close();
});

describe.runIf(have('skopeo', 'openssl'))('a registry with a password and a certificate that nobody knows', () => {
  let registry: SourceRegistry;
  let authfile: string;

  beforeAll(async () => {
    const tls = makeTls(work).pem;
    registry = await startSourceRegistry({ tls, login: 'ann:secret' });
    registry.add('x/it', image, ['1']);
    authfile = join(work, 'auth.json');
    const auth = Buffer.from('ann:secret').toString('base64');
    writeFileSync(authfile, JSON.stringify({ auths: { [registry.host]: { auth } } }));
  });
  afterAll(() => registry.close());
  afterEach(() => registry.mend(image.manifest.digest));

  const reference = () => `${registry.host}/x/it:1`;

  it('gives its images with --authfile and --tls-verify=false, signatures asked for too', async () => {
    const { exitCode, stderr } = await create(reference(), '--authfile', authfile, '--tls-verify=false');
    expect(`${exitCode} ${stderr}`).toContain(`0 fetching 1 of 1: ${reference()}`);
    const asked = registry.requests.map(({ path }) => path);
    expect(asked).toContain(`/v2/x/it/manifests/${image.manifest.digest.replace(':', '-')}.sig`);
  });

  it.each([
    [['--tls-verify=false'], /auth|unauthorized/i],
    [['--tls-verify'], /x509|certificate/],
    [['--tls-verify=true'], /x509|certificate/],
    [[], /x509|certificate/],
  ])('is refused with %j, and the message says why', async (flags, why) => {
    const authorised = flags[0] === '--tls-verify=false' ? [] : ['--authfile', authfile];
    const { exitCode, stderr } = await create(reference(), ...flags, ...authorised);
    expect(exitCode).toBe(1);
    expect(stderr.split('\n').at(-2)).toMatch(why);
  });

  it('is asked again with --retry, and not without it', async () => {
    const access = ['--authfile', authfile, '--tls-verify=false'];
    registry.breakDown(image.manifest.digest, { kind: 'break', atByte: 0, times: 1 });
    const once = await create(reference(), ...access);
    expect(once.exitCode).toBe(1);
    registry.breakDown(image.manifest.digest, { kind: 'break', atByte: 0, times: 1 });
    const again = await create(reference(), ...access, '--retry', '2');
    expect(`${again.exitCode} ${again.stderr}`).toMatch(/^0 /);
  });
});

describe('registry options', () => {
  it.each([
    ['nothing', /--authfile: .*nothing can't be read: .*ENOENT|no such file/],
    ['folder', /--authfile: .*folder is a folder: name the file in it/],
  ])('an authfile that is %s is an error even where no registry is asked', async (name, why) => {
    const layout = join(work, `layout-${name}`);
    writeOciLayout(layout, [{ image, names: ['it'] }]);
    mkdirSync(join(work, 'folder'), { recursive: true });
    const { exitCode, stderr } = await create(
      `quay.example.com/x/it:1=oci:${layout}:it`,
      '--authfile',
      join(work, name),
    );
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(why);
  });

  it.each([
    ['--tls-verify=no', 'true or false'],
    ['--retry=-1', 'a number from 0 to 100'],
    ['--retry=101', 'a number from 0 to 100'],
  ])('%s is wrong usage', async (flag, why) => {
    const { exitCode, stderr } = await create('quay.example.com/x/it:1', flag);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(why);
  });
});
