import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

let registry: SourceRegistry;
const work = folderForEach();
beforeAll(async () => {
  registry = await startSourceRegistry();
  for (const name of ['web', 'init', 'job', 'model']) {
    registry.add(`x/${name}`, sampleImage({ seed: name, architecture: 'amd64' }), ['1']);
  }
});
afterAll(() => registry.close());

const fixed = ['--name', 'shop', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--tls-verify=false'];
const create = (stdin: string, ...more: string[]) =>
  runCommand(['bundle', 'create', ...fixed, ...more, '--json', '--out', join(work, 'out')], { stdin });
const image = (name: string) => `${registry.host}/x/${name}:1`;
const chart = () => `
# Source: shop/templates/web.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      initContainers: [{name: init, image: "${image('init')}"}]
      containers: [{name: web, image: "${image('web')}"}, {name: again, image: "${image('web')}"}]
      volumes: [{name: model, image: {reference: "${image('model')}"}}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: job, image: "${image('job')}", imagePullPolicy: Always}]}}}}}
`;

describe.runIf(have('skopeo'))('bundle create --images-from', () => {
  it('makes a bundle of a rendered chart from stdin, and warns of policies', async () => {
    const { exitCode, stdout, stderr } = await create(chart(), '--images-from', '-');
    expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
    const { payload, resolved } = JSON.parse(stdout);
    expect(payload.totals.images).toBe(4);
    expect(Object.keys(resolved)).toEqual(['init', 'web', 'model', 'job'].map(image));
    expect(stderr).toContain(`CronJob nightly, container job: imagePullPolicy of ${image('job')} is Always`);
  });

  it('takes what --image names from the source given there, and the rest from registries', async () => {
    const layout = join(work, 'layout');
    const own = sampleImage({ seed: 'own', architecture: 'amd64' });
    writeOciLayout(layout, [{ image: own, names: ['web'] }]);
    const file = join(work, 'chart.yaml');
    writeFileSync(file, chart());
    const { exitCode, stdout, stderr } = await create(
      '',
      '--image',
      `${image('web')}=oci:${layout}:web`,
      '--images-from',
      file,
    );
    expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
    expect(JSON.parse(stdout).resolved[image('web')]).toBe(own.top.digest);
    expect(JSON.parse(stdout).payload.totals.images).toBe(4);
  });

  it('names all images that are missing at once, before the first download', async () => {
    const text = chart().replace('x/job:1', 'x/gone:1').replaceAll('x/web:1', 'x/web:9');
    const before = registry.requests.length;
    const { exitCode, stderr } = await create(text, '--images-from', '-');
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /^stickpin: 2 faults: \(1\) standard input: .*x\/web:9.*; \(2\) standard input: .*x\/gone:1/m,
    );
    expect(registry.requests.slice(before).filter(({ kind }) => kind === 'blob')).toEqual([]);
  });

  it('names the place of an image that its registry does not have', async () => {
    const { exitCode, stderr } = await create(chart().replace('x/job:1', 'x/gone:1'), '--images-from', '-');
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /stickpin: standard input: document 2, CronJob nightly, spec\.jobTemplate\.spec\.template\.spec\.containers\[0\]\.image: .*x\/gone:1/,
    );
  });

  it('warns of images outside of pods, in the payload too, and refuses them with --strict', async () => {
    const custom = `${chart()}---\nkind: Prometheus\nmetadata: {name: main}\nspec: {image: 'quay.io/x/p:1'}\n`.replace(
      ', imagePullPolicy: Always',
      '',
    );
    const warning = /document 3, Prometheus main, spec\.image: quay\.io\/x\/p:1 looks like an image/;
    const strict = await create(custom, '--images-from', '-', '--strict');
    expect([strict.exitCode, strict.stderr]).toEqual([1, expect.stringMatching(warning)]);
    const { exitCode, stdout } = await create(custom, '--images-from', '-');
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout).payload.warnings).toEqual([expect.stringMatching(warning)]);
  });

  it('takes the short names of a chart from the registry that is named', async () => {
    const short = chart().replaceAll(`${registry.host}/`, '');
    const refused = await create(short, '--images-from', '-');
    expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining('--short-names REGISTRY')]);
    const { exitCode, stdout, stderr } = await create(short, '--images-from', '-', '--short-names', registry.host);
    expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
    expect(Object.keys(JSON.parse(stdout).resolved)).toEqual(['init', 'web', 'model', 'job'].map(image));
    expect(stderr).not.toContain('is not in the bundle');
    const wrong = await create(short, '--images-from', '-', '--short-names', 'docker.io/library');
    expect(wrong.exitCode).toBe(2);
  });

  it('leaves out placeholders with a warning, and without one where --except names them', async () => {
    const auto = `${chart()}---\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: auto}]}\n`;
    const { exitCode, stdout, stderr } = await create(auto, '--images-from', '-', '--short-names', registry.host);
    expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
    expect(JSON.parse(stdout).payload.totals.images).toBe(4);
    const warning =
      'standard input: document 3, Pod p, spec.containers[0].image: "auto" is a placeholder or a pattern, not an image, and was not taken: add the image that takes its place with --image, or say --except \'auto\'';
    expect(JSON.parse(stdout).payload.warnings[0]).toBe(warning);
    rmSync(join(work, 'out'), { recursive: true });
    const excepted = await create(auto, '--images-from', '-', '--except', 'auto', '--except', '*/x/job:*');
    expect(JSON.parse(excepted.stdout).payload).toMatchObject({ totals: { images: 3 } });
    expect(excepted.stderr).not.toMatch(/auto|except|job/);
    rmSync(join(work, 'out'), { recursive: true });
    const unused = await create(auto, '--images-from', '-', '--except', 'auto', '--except', 'other');
    expect(JSON.parse(unused.stdout).payload.warnings).toContain('--except other fits no image');
    const nothing = await create('', '--image', image('web'), '--except', 'auto');
    expect([nothing.exitCode, nothing.stderr]).toEqual([
      2,
      expect.stringContaining('--except leaves out images of --archive and --images-from, and neither is given'),
    ]);
    const alone = await create('kind: Pod\nspec: {containers: [{name: c, image: auto}]}\n', '--images-from', '-');
    expect([alone.exitCode, alone.stderr]).toEqual([
      2,
      expect.stringMatching(/no image is given: .*"auto" is a placeholder/),
    ]);
  });

  it("names components as MicroShift's lists do, whose images are of one repository, where only one has the name", async () => {
    const release = (images: Readonly<Record<string, string>>) => {
      return `---\n${JSON.stringify({ release: { base: '4.18.3' }, images })}\n`;
    };
    for (const name of ['cli', 'lvms_operator', 'proxy', 'olm']) {
      registry.add('ocp/art-dev', sampleImage({ seed: name, architecture: 'amd64' }), [name]);
    }
    const of = (tag: string) => `${registry.host}/ocp/art-dev:${tag}`;
    const core = release({ cli: of('cli'), lvms_operator: of('lvms_operator'), 'kube-rbac-proxy': of('proxy') });
    const optional = release({ again: of('cli'), 'kube-rbac-proxy': of('olm') });
    const { stdout, stderr } = await create(`${core}${optional}`, '--images-from', '-');
    const { contents } = JSON.parse(stdout).payload;
    const { images } = JSON.parse(readFileSync(join(work, 'out/blobs', contents.digest.replace(':', '/')), 'utf8'));
    expect(images.map(({ component }: { component?: string }) => component)).toEqual([
      'cli',
      'lvms_operator',
      undefined,
      undefined,
    ]);
    expect(stderr.match(/another image is named 'kube-rbac-proxy' too/g)).toHaveLength(2);
  });

  it('reads stdin once', async () => {
    const { exitCode, stderr } = await create(chart(), '--images-from', '-', '--images-from', '-');
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('there is one standard input')]);
  });
});
