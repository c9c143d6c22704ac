import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sampleImage } from '../../support/bundles/sample-image.ts';
import { blocksBelow, runBlocks, stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const PAGE = 'docs/factory.md';
let programs: string;
let registry: SourceRegistry;
let home: string;

beforeAll(async () => {
  programs = await stickpinOnPath(mkdtempSync(join(tmpdir(), 'stickpin-program-')));
  registry = await startSourceRegistry();
  registry.add('x/web', sampleImage({ seed: 'web', architecture: 'amd64' }), ['1']);
});
afterAll(async () => {
  await registry?.close();
  rmSync(programs, { recursive: true, force: true });
});
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'stickpin-page-'));
  mkdirSync(join(home, '.config', 'containers'), { recursive: true });
  const insecure = `[[registry]]\nlocation = "${registry.host}"\ninsecure = true\n`;
  writeFileSync(join(home, '.config', 'containers', 'registries.conf'), insecure);
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

/** Runs every command of a section of the page. */
async function runSection(heading: string): Promise<string> {
  const blocks = await blocksBelow(PAGE, heading);
  expect(blocks.length).toBeGreaterThan(0);
  return runBlocks(['stickpin keygen --out factory', ...blocks], { directory: home, programs, env: { HOME: home } });
}

describe.runIf(have('skopeo'))(PAGE, () => {
  it('takes the images of a chart and of manifests', async () => {
    const pod = `kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: "${registry.host}/x/web:1"}]}\n`;
    mkdirSync(join(home, 'manifests'));
    writeFileSync(join(home, 'manifests', 'web.yaml'), pod);
    writeFileSync(join(home, 'auth.json'), '{}');
    // Helm is not in Debian: this prints what `helm template` would, and refuses anything else.
    writeFileSync(
      join(programs, 'helm'),
      `#!/bin/sh\n[ "$*" = 'template shop ./chart' ] || exit 1\ncat manifests/web.yaml\n`,
    );
    chmodSync(join(programs, 'helm'), 0o755);
    const output = await runSection('## Take the images of a chart');
    for (const version of ['1.4.0', '1.4.1', '1.4.2']) {
      expect(output).toContain(`shop ${version} for amd64 is in shop-${version}: 1 image,`);
    }
  });
});
