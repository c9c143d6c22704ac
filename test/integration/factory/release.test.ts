import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type SampleImage, sampleImage, sampleLayer, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { manifestsLayer, type ReleaseFiles, sampleRelease } from '../../support/bundles/sample-release.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const base = sampleLayer({ seed: 'base' });
const make = (seed: string, withIndex = false) =>
  sampleImage({ seed, architecture: 'amd64', withIndex, layers: [base, sampleLayer({ seed })] });
const etcd = make('etcd', true);
const proxy = make('proxy');
/** A release whose payload lies in another repository of the same registry, as OpenShift's does. */
const releaseIn = (registry: string) =>
  sampleRelease([
    { name: 'etcd', reference: `${registry}/ocp/art@${etcd.top.digest}` },
    { name: 'edge-proxy', reference: `${registry}/ocp/art@${proxy.top.digest}` },
  ]);

const root = folderForEach();
let layout: string;
beforeEach(() => {
  layout = join(root, 'layout');
});

async function create(...more: string[]) {
  const fixed = ['--name', 'ocp', '--version', '4.13.7', '--arch', 'amd64', '--sequence', '1'];
  return runCommand(['bundle', 'create', ...fixed, '--out', join(root, 'out', 'bundle'), ...more]);
}

/** Component and reference of all images, in load order. */
async function images(): Promise<[component: string, reference: string][]> {
  const inspected = await runCommand(['bundle', 'inspect', join(root, 'out', 'bundle'), '--json']);
  const { contents } = JSON.parse(inspected.stdout);
  return contents.images.map(({ component, reference }: { component: string; reference: string }) => [
    component,
    reference,
  ]);
}

function blobs(of: readonly SampleImage[]): string[] {
  return [...new Set(of.flatMap((image) => image.blobs.map((blob) => blob.digest.slice(7))))].sort();
}

describe('--release from an OCI layout', () => {
  it('adds the release image and its payload, each with its component', async () => {
    const release = releaseIn('quay.example.com');
    writeOciLayout(layout, [{ image: release, names: ['4.13.7'] }, { image: etcd }, { image: proxy }]);
    const made = await create('--release', `quay.example.com/ocp/release:4.13.7=oci:${layout}:4.13.7`, '--json');
    expect(made.exitCode, made.stderr).toBe(0);
    const { payload, resolved } = JSON.parse(made.stdout);
    expect(payload.warnings).toBeUndefined();
    expect(resolved).toEqual({ 'quay.example.com/ocp/release:4.13.7': release.top.digest });
    expect(await images()).toEqual([
      ['release', `quay.example.com/ocp/release@${release.top.digest}`],
      ['etcd', `quay.example.com/ocp/art@${etcd.top.digest}`],
      ['edge-proxy', `quay.example.com/ocp/art@${proxy.top.digest}`],
    ]);
    const there = readdirSync(join(root, 'out', 'bundle', 'blobs', 'sha256'));
    expect(there.filter((name) => name !== payload.contents.digest.slice(7)).sort()).toEqual(
      blobs([release, etcd, proxy]),
    );
  });

  it('adds the payload after other images, which keep their sources', async () => {
    writeOciLayout(layout, [{ image: releaseIn('quay.example.com') }]);
    writeOciLayout(join(root, 'own'), [{ image: etcd }, { image: proxy }, { image: make('app'), names: ['app'] }]);
    const own = ['app:1', `ocp/art@${etcd.top.digest}`, `ocp/art@${proxy.top.digest}`];
    const sources = [`oci:${join(root, 'own')}:app`, `oci:${join(root, 'own')}`, `oci:${join(root, 'own')}`];
    const asked = own.flatMap((name, at) => ['--image', `quay.example.com/${name}=${sources[at]}`]);
    const made = await create(...asked, '--release', `ocp=quay.example.com/ocp/release:4=oci:${layout}`);
    expect(made.exitCode, made.stderr).toBe(0);
    expect((await images()).map(([component]) => component)).toEqual(['app', 'etcd', 'edge-proxy', 'ocp']);
  });

  it.each<[string, () => SampleImage, readonly SampleImage[], string]>([
    [
      'has no list of images',
      () => etcd,
      [],
      'is not an OpenShift release image: it has no release-manifests/image-references',
    ],
    [
      'lists what the layout lacks',
      () => releaseIn('quay.example.com'),
      [etcd],
      'release quay.example.com/ocp/release:4, edge-proxy: oci:',
    ],
    [
      'lists what is not JSON',
      () => sampleImage({ seed: 'x', architecture: 'amd64', layers: [manifestsLayer(Buffer.from('{'))] }),
      [],
      'is not JSON',
    ],
    ['is for another platform', () => sampleImage({ seed: 'x', architecture: 'arm64' }), [], 'is an image for arm64'],
  ])('makes no bundle of one that %s', async (_name, release, more, why) => {
    writeOciLayout(layout, [{ image: release(), names: ['it'] }, ...more.map((image) => ({ image }))]);
    const made = await create('--release', `quay.example.com/ocp/release:4=oci:${layout}:it`);
    expect(made).toMatchObject({ exitCode: 1, stdout: '' });
    expect(made.stderr).toMatch(/^stickpin: [^\n]+\n$/);
    expect(made.stderr).toContain(why);
    expect(existsSync(join(root, 'out'))).toBe(false);
  });

  describe('that names its version, the versions before it, and its manifests', () => {
    const metadata = { version: '4.13.7', previous: ['4.12.30', '4.13.6', '4.13.5'] };
    const pod = (image: string, policy: string) =>
      `apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: app, image: '${image}', imagePullPolicy: ${policy}}]\n`;
    const put = (files: ReleaseFiles) => {
      const tags = [{ name: 'etcd', reference: `quay.example.com/ocp/art@${etcd.top.digest}` }];
      writeOciLayout(layout, [{ image: sampleRelease(tags, files), names: ['it'] }, { image: etcd }]);
    };
    const release = ['--release', 'quay.example.com/ocp/release:4.13.7=oci:'];
    const make = async (...more: string[]) =>
      create(...release.slice(0, 1), `${release[1]}${layout}:it`, '--json', ...more);
    const payloadOf = async (...more: string[]) => {
      const made = await make(...more);
      expect(made.exitCode, made.stderr).toBe(0);
      return JSON.parse(made.stdout).payload;
    };

    it('lets nodes update from the versions that it names', async () => {
      put({ metadata });
      expect((await payloadOf('--deadend', 'why')).update).toEqual({
        from: '>=4.13.5 <=4.13.6 || 4.12.30',
        deadend: { reason: 'why' },
      });
    });

    it('prefers a range that is given', async () => {
      put({ metadata });
      expect((await payloadOf('--from', '>=4.10.0')).update).toEqual({ from: '>=4.10.0' });
    });

    it('leaves both out with --without-previous', async () => {
      put({ metadata: { ...metadata, version: '4.13.8' } });
      expect((await payloadOf('--without-previous')).update).toBeUndefined();
    });

    it('makes no bundle with another version', async () => {
      put({ metadata: { ...metadata, version: '4.13.8' } });
      expect(await make()).toMatchObject(ended(2, 'is version 4.13.8, and --version says 4.13.7'));
      expect(existsSync(join(root, 'out'))).toBe(false);
    });

    it('warns of what its manifests would ask a registry for', async () => {
      const there = `quay.example.com/ocp/art@${etcd.top.digest}`;
      const manifests = {
        '0000_50_always.yaml': pod(there, 'Always'),
        '0000_51_absent.yaml': pod('quay.example.com/ocp/other:1', 'IfNotPresent'),
        '0000_52_good.yaml': pod(there, 'IfNotPresent'),
        '0000_53_later.yaml': pod('<image>', 'IfNotPresent'),
        '0000_54_broken.yaml': 'image: x\n{{',
      };
      put({ metadata, manifests });
      const place = (name: string) => `release-manifests/${name} of quay.example.com/ocp/release:4.13.7`;
      expect((await payloadOf()).warnings).toEqual([
        expect.stringMatching(`^${place('0000_54_broken.yaml')}:.*its images are not compared with the bundle$`),
        `${place('0000_50_always.yaml')}: Pod web, container app: imagePullPolicy of ${there} is Always: the node asks the registry each time it starts; use IfNotPresent`,
        `${place('0000_51_absent.yaml')}: Pod web, container app: image quay.example.com/ocp/other:1 is not in the bundle`,
      ]);
    });
  });

  it('refuses --without-previous without a release', async () => {
    const made = await create('--image', 'quay.example.com/app:1', '--without-previous');
    expect(made).toMatchObject(ended(2, '--without-previous is for the release image of --release'));
  });

  it('refuses other transports as wrong usage', async () => {
    const made = await create('--release', 'quay.example.com/ocp/release:4=dir:/nowhere');
    expect(made).toMatchObject(ended(2, 'must come from docker:// or oci:'));
    expect((await create('--release', 'release:4')).exitCode).toBe(2);
  });
});

describe.runIf(have('skopeo'))('--release from a registry', () => {
  let registry: SourceRegistry;
  beforeEach(async () => {
    registry = await startSourceRegistry();
    const configuration = join(root, '.config', 'containers');
    mkdirSync(configuration, { recursive: true });
    writeFileSync(
      join(configuration, 'registries.conf'),
      `[[registry]]\nlocation = "${registry.host}"\ninsecure = true\n`,
    );
    vi.stubEnv('HOME', root);
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await registry.close();
  });
  const expectPayload = async (name: string) => {
    expect(await images()).toEqual([
      ['release', expect.stringMatching(`^${name}/ocp/release@`)],
      ['etcd', `${name}/ocp/art@${etcd.top.digest}`],
      ['edge-proxy', `${name}/ocp/art@${proxy.top.digest}`],
    ]);
  };

  it('fetches the payload from the repository that the release names', async () => {
    registry.add('ocp/release', releaseIn(registry.host), ['4.13.7']);
    for (const image of [etcd, proxy]) registry.add('ocp/art', image);
    const made = await create('--release', `${registry.host}/ocp/release:4.13.7`);
    expect(made.exitCode, made.stderr).toBe(0);
    await expectPayload(registry.host);
    const verified = await runCommand(['bundle', 'inspect', join(root, 'out', 'bundle')]);
    expect(verified.stdout).not.toContain('missing');
  });

  it.each([
    ['a mirror of its registry', 'quay/ocp/release', 'quay/ocp/art'],
    ['one repository that holds all', 'mirror/all', 'mirror/all'],
  ])('fetches it from %s', async (_name, releasePath, payloadPath) => {
    registry.add(releasePath, releaseIn('quay.example.com'), ['4']);
    for (const image of [etcd, proxy]) registry.add(payloadPath, image);
    const made = await create('--release', `quay.example.com/ocp/release:4=docker://${registry.host}/${releasePath}:4`);
    expect(made.exitCode, made.stderr).toBe(0);
    await expectPayload('quay.example.com');
  });

  it('names the image of the payload that can not be fetched, and leaves nothing behind', async () => {
    registry.add('ocp/release', releaseIn(registry.host), ['4']);
    registry.add('ocp/art', etcd);
    const made = await create('--release', `${registry.host}/ocp/release:4`);
    expect(made).toMatchObject({ exitCode: 1, stdout: '' });
    expect(made.stderr).toMatch(/\nstickpin: release [^\n]*, edge-proxy: [^\n]* can't be fetched: [^\n]*\n$/);
    expect(existsSync(join(root, 'out'))).toBe(false);
  });
});
