import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type SampleBlob,
  type SampleImage,
  sampleImage,
  writeOciLayout,
} from '../../../support/bundles/sample-image.ts';
import { sampleArtifact, sampleReferrer, textBlob } from '../../../support/bundles/sample-signature.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { ended } from '../../../support/matching.ts';
import { runCommand } from '../../../support/run-command.ts';

const root = folderForEach();
const at = (name: string) => join(root, name);
const app = sampleImage({ seed: 'app', architecture: 'amd64', withIndex: true });
const plain = sampleImage({ seed: 'plain', architecture: 'amd64' });
const tagOf = ({ digest }: { digest: string }, kind: string) => `${digest.replace(':', '-')}.${kind}`;

const subject = ({ mediaType, digest, sizeBytes }: SampleBlob) => ({
  subject: { mediaType, digest, size: sizeBytes },
});
const statement = (predicateType: string, predicate: unknown) =>
  JSON.stringify({ _type: 'https://in-toto.io/Statement/v1', predicateType, predicate });
const dsse = (text: string) => ({ payloadType: 'application/vnd.in-toto+json', payload: btoa(text), signatures: [] });
const IN_DSSE = 'application/vnd.dsse.envelope.v1+json';
const SPDX = 'https://spdx.dev/Document';

async function bundleWith(...attached: { image: SampleImage; names: string[] }[]): Promise<string> {
  const layout = at('layout');
  writeOciLayout(layout, [{ image: app, names: ['app'] }, { image: plain, names: ['plain'] }, ...attached]);
  const { stderr, exitCode } = await runCommand([
    ...['bundle', 'create', '--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'],
    ...['--image', `quay.example.com/edge/app:1=oci:${layout}:app`, '--referrers', 'all'],
    ...['--image', `quay.example.com/edge/plain:1=oci:${layout}:plain`, '--out', at('bundle')],
  ]);
  expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
  return at('bundle');
}
const inspect = (...more: string[]) => runCommand(['bundle', 'inspect', at('bundle'), '--sbom', at('sboms'), ...more]);
const written = () =>
  Object.fromEntries(
    readdirSync(at('sboms'))
      .sort()
      .map((name) => [name, readFileSync(join(at('sboms'), name), 'utf8').trim()]),
  );

const short = app.top.digest.slice('sha256:'.length, 'sha256:'.length + 12);
const name = `quay.example.com_edge_app-${short}`;

describe('bundle inspect --sbom', () => {
  it('writes what cosign attaches, by tag, in attestations and in bundles, and counts images without', async () => {
    await bundleWith(
      {
        image: sampleArtifact([
          textBlob('application/vnd.cyclonedx+xml', '<bom/>'),
          textBlob('text/spdx', 'SPDXVersion: SPDX-2.3'),
        ]),
        names: [tagOf(app.top, 'sbom')],
      },
      {
        image: sampleArtifact([
          textBlob(IN_DSSE, JSON.stringify(dsse(statement(SPDX, { spdxVersion: 'SPDX-2.3' })))),
          textBlob(
            IN_DSSE,
            JSON.stringify(dsse(statement('https://cyclonedx.org/bom', { Data: { bomFormat: 'old' } }))),
          ),
          textBlob(IN_DSSE, JSON.stringify(dsse(statement('https://slsa.dev/provenance/v1', {})))),
        ]),
        names: [tagOf(app.manifest, 'att')],
      },
      {
        image: sampleArtifact(
          [
            textBlob(
              'application/vnd.dev.sigstore.bundle.v0.3+json',
              JSON.stringify({ dsseEnvelope: dsse(statement(`${SPDX}/v2.3`, 'SPDXVersion: of a bundle')) }),
            ),
          ],
          { artifactType: 'application/vnd.dev.sigstore.bundle.v0.3+json', ...subject(app.top) },
        ),
        names: ['any'],
      },
    );
    const { stdout, exitCode } = await inspect();
    expect(exitCode).toBe(0);
    expect(written()).toEqual({
      [`${name}.cdx.json`]: '{"bomFormat":"old"}',
      [`${name}.cdx.xml`]: '<bom/>',
      [`${name}.spdx`]: 'SPDXVersion: SPDX-2.3',
      [`${name}-2.spdx`]: 'SPDXVersion: of a bundle',
      [`${name}.spdx.json`]: '{"spdxVersion":"SPDX-2.3"}',
    });
    expect(stdout).toContain(
      `  ${at('sboms')}/${name}.cdx.xml (CycloneDX, 6 B) of quay.example.com/edge/app@${app.top.digest}\n`,
    );
    expect(stdout).toMatch(/\n {2}1 image has no SBOM.*\n$/);
    expect(stdout.split('\n')).toHaveLength(8);
  });

  it('writes referrers of trivy, oras and buildkit, each content once, and lists them with --json', async () => {
    const spdx = 'application/spdx+json';
    const same = textBlob(spdx, '{"spdxVersion":"trivy"}');
    await bundleWith(
      { image: sampleArtifact([same], subject(app.top)), names: ['trivy'] },
      { image: sampleArtifact([same], { artifactType: 'again', ...subject(app.manifest) }), names: ['again'] },
      {
        image: sampleArtifact([textBlob('application/vnd.oci.image.layer.v1.tar', '{"spdxVersion":"oras"}')], {
          artifactType: spdx,
          ...subject(app.manifest),
        }),
        names: ['oras'],
      },
      {
        image: sampleArtifact(
          [textBlob('application/vnd.in-toto+json', statement(SPDX, { spdxVersion: 'buildkit' }))],
          {
            artifactType: 'application/vnd.docker.attestation.manifest.v1+json',
            ...subject(app.manifest),
          },
        ),
        names: ['buildkit'],
      },
      { image: sampleArtifact([textBlob('application/vnd.syft+json', '{}')], subject(app.manifest)), names: ['syft'] },
      { image: sampleReferrer(app.manifest, 'application/sarif+json'), names: ['other'] },
    );
    const { sboms } = JSON.parse((await inspect('--json')).stdout);
    expect(Object.values(written()).sort()).toEqual([
      '{"spdxVersion":"buildkit"}',
      '{"spdxVersion":"oras"}',
      '{"spdxVersion":"trivy"}',
      '{}',
    ]);
    expect(sboms.map(({ file }: { file: string }) => file).sort()).toEqual(Object.keys(written()));
    expect(sboms).toContainEqual({
      file: `${name}.syft.json`,
      image: `quay.example.com/edge/app@${app.top.digest}`,
      format: 'Syft',
      sizeBytes: 2,
    });
  });

  it('names what it can not read, and writes the others', async () => {
    const lost = textBlob('application/spdx+json', '{"spdxVersion":"lost"}');
    const deep = `${'['.repeat(100)}${']'.repeat(100)}`;
    await bundleWith(
      { image: sampleArtifact([lost, textBlob('text/spdx', 'whole')]), names: [tagOf(app.top, 'sbom')] },
      {
        image: sampleArtifact([textBlob(IN_DSSE, 'no JSON'), textBlob(IN_DSSE, deep)]),
        names: [tagOf(app.top, 'att')],
      },
    );
    rmSync(join(at('bundle'), 'blobs', 'sha256', lost.digest.slice(7)));
    const { stderr, exitCode } = await inspect();
    expect(exitCode).toBe(0);
    expect(written()).toEqual({ [`${name}.spdx`]: 'whole' });
    expect(stderr).toContain(`blob ${lost.digest} is absent`);
    expect(stderr).toContain('is not JSON');
    expect(stderr).toContain('more than 64 levels');
  });

  it('takes no folder that has files, and writes nothing over them', async () => {
    await bundleWith({ image: sampleArtifact([textBlob('text/spdx', 'new')]), names: [tagOf(app.top, 'sbom')] });
    mkdirSync(at('sboms'));
    writeFileSync(join(at('sboms'), `${name}.spdx`), 'old');
    expect(await inspect()).toMatchObject(ended(1, at('sboms')));
    expect(written()).toEqual({ [`${name}.spdx`]: 'old' });
    expect(readdirSync(root).sort()).toEqual(['bundle', 'layout', 'sboms']);
  });
});
