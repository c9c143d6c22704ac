import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sampleImage, sampleLayer, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll, folderForEach } from '../../support/files/temporary-folder.ts';
import { have, type Requirement } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const repository = new URL('../../../', import.meta.url).pathname;
const program = folderForAll();
const home = folderForEach();
let registry: SourceRegistry;
let out: string;

beforeAll(async () => {
  execFileSync(process.execPath, ['packaging/build.mjs', join(program, 'dist')], { cwd: repository });
  for (const name of ['node_modules', 'proto']) symlinkSync(join(repository, name), join(program, name));
  registry = await startSourceRegistry();
});
afterAll(async () => {
  await registry?.close();
});
beforeEach(() => {
  out = join(home, 'out');
  mkdirSync(join(home, '.config', 'containers'), { recursive: true });
  mkdirSync(out);
  const insecure = [registry.host, '127.0.0.1:1'].map(
    (host) => `[[registry]]\nlocation = "${host}"\ninsecure = true\n`,
  );
  writeFileSync(join(home, '.config', 'containers', 'registries.conf'), insecure.join(''));
});

/** Runs the bundled program itself, `bundle create` of this image. */
function start(image: string, name = 'bundle') {
  const fixed = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--image', image];
  const args = [join(program, 'dist/cli/main.js'), 'bundle', 'create', ...fixed, '--out', join(out, name)];
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, HOME: home },
  });
  const said = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream].on('data', (chunk: Buffer) => {
      said[stream] += chunk.toString();
    });
  }
  return { child, said, closed: once(child, 'close') };
}

/** One clear line behind what tells progress, exit code 1, and nothing left. */
async function expectFailure({ said, closed }: ReturnType<typeof start>, why: RegExp): Promise<void> {
  expect(await closed, said.stderr).toEqual([1, null]);
  expect(said.stdout).toBe('');
  const lines = said.stderr.split('\n').filter((line) => !line.startsWith('fetching '));
  expect(lines).toEqual([expect.stringMatching(why), '']);
  expect(readdirSync(out)).toEqual([]);
}

const image = sampleImage({ seed: 'it', architecture: 'amd64' });

describe('bundle create, the program itself', () => {
  it('names the damaged blob', async () => {
    const layout = join(home, 'layout');
    writeOciLayout(layout, [{ image }]);
    writeFileSync(
      join(layout, 'blobs', 'sha256', image.layers[0]?.digest.slice(7) ?? ''),
      sampleLayer({ seed: 'x' }).bytes,
    );
    await expectFailure(
      start(`quay.example.com/x/it:1=oci:${layout}`),
      /^stickpin: layer .* is damaged: its digest is sha256:/,
    );
  });

  it('lists the images of a layout that lacks the wanted one', async () => {
    const layout = join(home, 'layout');
    writeOciLayout(layout, [{ image, names: ['it'] }]);
    const wrong = `quay.example.com/x/it@sha256:${'0'.repeat(64)}=oci:${layout}:it`;
    await expectFailure(start(wrong), new RegExp(`^stickpin: .* holds ${image.top.digest} instead$`));
  });
});

describe.runIf(have('skopeo'))('bundle create from a registry, the program itself', () => {
  it('fails with a reason when the registry does not answer', async () => {
    await expectFailure(
      start('127.0.0.1:1/x/it:1'),
      /^stickpin: 127\.0\.0\.1:1\/x\/it:1 .*can't be fetched: .*connection refused/,
    );
  });

  it('says when the registry sends other bytes', async () => {
    registry.add('x/it', image, ['1']);
    registry.breakDown(image.layers[0]?.digest ?? '', { kind: 'corrupt', atByte: 50 });
    await expectFailure(start(`${registry.host}/x/it:1`), /^stickpin: .*can't be fetched: .*[Dd]igest/);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)('ends at %s in the middle of a layer, and skopeo with it', async (name) => {
    const slow = sampleImage({ seed: name, architecture: 'amd64' });
    const [layer = ''] = slow.layers.map(({ digest }) => digest);
    registry.add('x/slow', slow, [name.toLowerCase()]);
    registry.breakDown(layer, { kind: 'stall', atByte: 100 });
    const running = start(`${registry.host}/x/slow:${name.toLowerCase()}`);
    await eventually(() => expect(registry.bytesSent(layer)).toBe(100), 30_000);
    running.child.kill(name);
    await expectFailure(running, /^stickpin: interrupted$/);
    registry.mend(layer);
  });
});

const mounting: Requirement = {
  name: 'mounting',
  isMet: () => spawnSync('unshare', ['--mount', 'true']).status === 0,
  remedy: 'run as root with CAP_SYS_ADMIN',
};

describe.runIf(have('root', 'skopeo', mounting))('bundle create on a full filesystem, the program itself', () => {
  beforeEach(() => execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', out]));
  afterEach(() => execFileSync('umount', [out]));
  const large = sampleImage({
    seed: 'large',
    architecture: 'amd64',
    layers: [sampleLayer({ seed: 'large', sizeBytes: 1024 * 1024 })],
  });

  it('reports how many bytes it needs and how many are free', async () => {
    const layout = join(home, 'layout');
    writeOciLayout(layout, [{ image: large }]);
    const running = start(`quay.example.com/x/large:1=oci:${layout}`, 'ocp.stickpin.tar');
    await expectFailure(running, /^stickpin: not enough space in .*: the bundle needs 2 MiB, 2\d\d KiB are free$/);
  });

  it('reports it when skopeo fills the filesystem', async () => {
    registry.add('x/large', large, ['1']);
    await expectFailure(start(`${registry.host}/x/large:1`), /^stickpin: .*no space left on device/);
  });
});
