import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { indexOver, sampleArtifact, sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { blocksBelow, runBlocks, stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const PAGE = 'docs/factory.md';
let programs: string;
let registry: SourceRegistry;
const home = folderForEach();

beforeAll(async () => {
  programs = await stickpinOnPath(mkdtempSync(join(tmpdir(), 'stickpin-program-')));
  // Helm and opm are not in Debian: these print what they would, and refuse anything else.
  const replace = (name: string, args: string, prints: string) => {
    writeFileSync(join(programs, name), `#!/bin/sh\n[ "$*" = '${args}' ] || exit 1\ncat ${prints}\n`);
    chmodSync(join(programs, name), 0o755);
  };
  replace('helm', 'template shop ./chart', 'manifests/web.yaml');
  replace('opm', 'render registry.example.com/operators/shop-bundle:v1.4.0', 'rendered.json');
  registry = await startSourceRegistry();
  const [amd64, arm64] = ['amd64', 'arm64'].map((architecture) => sampleImage({ seed: 'web', architecture }));
  if (amd64 === undefined || arm64 === undefined) expect.unreachable();
  registry.add('x/web', indexOver({ amd64, arm64 }), ['1']);
  registry.add('shop/web', amd64, ['1.4.0']);
  registry.add('charts/shop', sampleArtifact({ files: { 'shop-1.4.0.tgz': Buffer.from('a chart') } }), ['1.4.0']);
});
afterAll(async () => {
  await registry?.close();
  rmSync(programs, { recursive: true, force: true });
});
beforeEach(() => {
  mkdirSync(join(home, '.config', 'containers'), { recursive: true });
  const insecure = ['', 'prefix = "registry.example.com"\n'].map(
    (prefix) => `[[registry]]\n${prefix}location = "${registry.host}"\ninsecure = true\n`,
  );
  writeFileSync(join(home, '.config', 'containers', 'registries.conf'), insecure.join('\n'));
  const pod = `kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: "${registry.host}/x/web:1"}]}\n`;
  mkdirSync(join(home, 'manifests'));
  writeFileSync(join(home, 'manifests', 'web.yaml'), pod);
});

/** What opm would render of an operator. */
function renderOperator(): void {
  const relatedImages = [{ name: 'web', image: `${registry.host}/x/web:1` }];
  const rendered = { schema: 'olm.bundle', name: 'shop.v1', relatedImages };
  writeFileSync(join(home, 'rendered.json'), JSON.stringify(rendered));
}

/** The archives of k3s and RKE2. */
async function packArchives(): Promise<void> {
  writeOciLayout(join(home, 'layout'), [
    { image: sampleImage({ seed: 'pause', architecture: 'amd64' }), names: ['it'] },
  ]);
  const save =
    'skopeo --insecure-policy copy --quiet oci:layout:it docker-archive:images.tar:docker.io/rancher/pause:3.6';
  const pack =
    'zstd -q -T0 -16 --long=25 images.tar -o rke2-images.linux-amd64.tar.zst && gzip -c images.tar > k3s-airgap-images-amd64.tar.gz';
  await runBlocks([save, pack], { directory: home, programs });
}

/** Runs every command of a section of the page. */
async function runSection(heading: string): Promise<string> {
  const blocks = await blocksBelow(PAGE, heading);
  expect(blocks.length).toBeGreaterThan(0);
  return runBlocks(['stickpin keygen --out factory', ...blocks], { directory: home, programs, env: { HOME: home } });
}

const SECTIONS = [
  ...['## Take the images of a chart', '## Take an operator', '## Take an archive of images'],
  '## Take a chart or a model along',
];

describe.runIf(have('skopeo', program('zstd', 'apt-get install zstd')))(PAGE, () => {
  it('can be followed: its commands run one after the other in one folder', async () => {
    writeFileSync(join(home, 'auth.json'), '{}');
    renderOperator();
    await packArchives();
    const blocks = (await Promise.all(SECTIONS.map((heading) => blocksBelow(PAGE, heading)))).flat();
    const all = ['stickpin keygen --out factory', ...blocks];
    const output = await runBlocks(all, { directory: home, programs, env: { HOME: home } });
    for (const version of ['1.4.2', '1.4.3']) expect(output).toContain(`is in shop-${version}: 1 image,`);
  });

  it('takes the images of a chart and of manifests', async () => {
    writeFileSync(join(home, 'auth.json'), '{}');
    const output = await runSection('## Take the images of a chart');
    for (const version of ['1.4.0', '1.4.1', '1.4.2']) {
      expect(output).toContain(`shop ${version} for amd64 is in shop-${version}: 1 image,`);
    }
    for (const arch of ['amd64', 'arm64']) expect(output).toContain(`for ${arch} is in shop-both-${arch}: 1 image,`);
  });

  it('takes the options from a file, first to try them', async () => {
    const output = await runSection('### Keep the options in a file');
    expect(output).toMatch(/Nothing was written\.\n(?:.*\n)*shop 1\.4\.1 for amd64 is in shop-file: 1 image,/);
  });

  it('takes what opm renders of an operator', async () => {
    renderOperator();
    const output = await runSection('## Take an operator');
    expect(output).toContain('shop-operator 1.4.0 for amd64 is in shop-operator: 1 image,');
  });

  it('takes a chart along', async () => {
    const output = await runSection('## Take a chart or a model along');
    expect(output).toContain('shop 1.4.3 for amd64 is in shop-1.4.3: 1 image,');
  });

  it('takes archives of images', async () => {
    await packArchives();
    const output = await runSection('## Take an archive of images');
    expect(output).toContain('rke2 1.31.4 for amd64 is in rke2-1.31.4: 1 image,');
    expect(output).toContain('site 1.0.0 for amd64 is in site-1.0.0: 2 images,');
  });
});
