import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { beforeEach, describe, expect, it } from 'vitest';
import { formatReference } from '../../../../src/domain/model/reference.ts';
import { merged, readImagesFrom, untakenNotes } from '../../../../src/factory/images/images-from.ts';
import { manifestWarnings } from '../../../../src/factory/images/manifest-warnings.ts';
import { NamePattern } from '../../../../src/factory/images/name-pattern.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

const signal = new AbortController().signal;
const pod = (image: string, name = 'web') =>
  `---\nkind: Pod\nmetadata: {name: ${name}, namespace: shop}\nspec:\n  containers: [{name: c, image: '${image}'}]\n`;
const fromStdin = (text: string | Buffer, shortNames?: string) =>
  readImagesFrom({ source: '-', shortNames }, () => Readable.from([Buffer.from(text)]), signal);
const fromPath = (path: string) => readImagesFrom({ source: path }, () => Readable.from([]), signal);
const names = ({ requests }: Awaited<ReturnType<typeof fromStdin>>) =>
  requests.map(({ reference }) => formatReference(reference));

describe('readImagesFrom', () => {
  it('takes the images of stdin, each once, with where it stands first', async () => {
    const found = await fromStdin(
      `${pod('quay.io/x/a:1')}${pod('docker.io/b:1', 'other')}${pod('docker.io/library/b:1')}`,
    );
    expect(found.requests).toEqual([
      {
        reference: { registry: 'quay.io', repository: 'quay.io/x/a', tag: '1' },
        source: { kind: 'skopeo', location: 'docker://quay.io/x/a:1' },
        isReplaceable: true,
        origin: 'standard input: document 1, Pod shop/web, spec.containers[0].image',
      },
      expect.objectContaining({
        origin: 'standard input: document 2, Pod shop/other, spec.containers[0].image',
        source: { kind: 'skopeo', location: 'docker://docker.io/library/b:1' },
      }),
    ]);
    expect(found.used).toHaveLength(3);
    expect(found.notes).toEqual([]);
  });

  it('takes them from a file of any name, and from all manifests of a folder in their order', async () => {
    mkdirSync(join(folder, 'sub'));
    writeFileSync(join(folder, 'sub', 'b.yml'), pod('quay.io/x/b:1'));
    writeFileSync(
      join(folder, 'z.json'),
      JSON.stringify({ kind: 'List', items: [{ spec: { containers: [{ image: 'quay.io/x/c:1' }] } }] }),
    );
    writeFileSync(join(folder, 'a.txt'), pod('quay.io/x/a:1'));
    expect(names(await fromPath(join(folder, 'a.txt')))).toEqual(['quay.io/x/a:1']);
    expect(names(await fromPath(folder))).toEqual(['quay.io/x/b:1', 'quay.io/x/c:1']);
  });

  it('names every reference that is wrong: file, document, object and field', async () => {
    const text = `${pod('nginx:1')}${pod('quay.io/x/a:1')}${pod('quay.io/X/b:1')}`;
    await expect(fromStdin(text)).rejects.toThrow(
      expect.objectContaining({
        code: 'bundle/option',
        message: expect.stringMatching(
          /^standard input: document 1, Pod shop\/web, spec\.containers\[0\]\.image: .*'nginx:1'.*; standard input: document 3, .*'quay\.io\/X\/b:1'/,
        ),
      }),
    );
    const many = Array.from({ length: 25 }, (_, at) => pod(`bad-${at}`)).join('');
    await expect(fromStdin(many)).rejects.toThrow(
      /and 5 more; --short-names REGISTRY says where short names come from, for example docker\.io$/,
    );
  });

  it('takes short names from the registry that is named, and leaves other names alone', async () => {
    const text = ['nginx:1.25', 'bitnami/redis:7', 'quay.io/x/a:1', 'localhost/b:1', 'busybox'].map((one) => pod(one));
    expect(names(await fromStdin(text.join(''), 'docker.io'))).toEqual([
      'docker.io/library/nginx:1.25',
      'docker.io/bitnami/redis:7',
      'quay.io/x/a:1',
      'localhost/b:1',
      'docker.io/library/busybox',
    ]);
    const other = await fromStdin(pod('nginx:1.25'), 'registry.example.com:5000');
    expect(names(other)).toEqual(['registry.example.com:5000/nginx:1.25']);
    expect(other.used).toMatchObject([{ image: 'registry.example.com:5000/nginx:1.25' }]);
    await expect(fromStdin(pod('quay.io/X/b:1'))).rejects.not.toThrow('--short-names');
    await expect(fromStdin(pod('NGINX:1'), 'docker.io')).rejects.toThrow(/'NGINX' can't be part/);
  });

  it('never reads a source out of a reference', async () => {
    await expect(fromStdin(pod('quay.io/x/a:1=oci:/etc'))).rejects.toThrow(/'1=oci:\/etc' is not a tag/);
  });

  it.each([
    ['nothing', '', /no pod with an image is in standard input: did the command before the pipe fail\?/],
    ['comments', '# nothing\n---\n', /no pod with an image/],
    ['a container without an image', pod(''), /no pod with an image/],
    ['a template', '{{ if .Values.on }}\na: 1\n', /^standard input:[12]: is not YAML/],
    ['too much', Buffer.alloc(17 * 1024 * 1024, '#\n'), /standard input has more than 16777216 bytes/],
  ])('refuses %s', async (_name, text, why) => {
    await expect(fromStdin(text)).rejects.toThrow(why);
  });

  it('leaves out patterns of policies, variables of templates among them, and says where they are', async () => {
    writeFileSync(
      join(folder, 'policy.yaml'),
      `${pod('reg.example.com/* | other/*')}${pod('!*:latest')}${pod('{{ element.image }}')}${pod('quay.io/x/a:1')}`,
    );
    const found = await fromPath(folder);
    expect(names(found)).toEqual(['quay.io/x/a:1']);
    const note = (document: number, image: string) =>
      `${join(folder, 'policy.yaml')}: document ${document}, Pod shop/web, spec.containers[0].image: "${image}" is a placeholder or a pattern, not an image, and was not taken: add the image that takes its place with --image, or say --except '${image}'`;
    expect(found.notes).toEqual([
      note(1, 'reg.example.com/* | other/*'),
      note(2, '!*:latest'),
      note(3, '{{ element.image }}'),
    ]);
    expect(manifestWarnings(found.used, [])).toEqual([
      expect.stringContaining('image quay.io/x/a:1 is not in the bundle'),
    ]);
  });

  it('says what to do with a chart that was not rendered', async () => {
    const image = '{{ .Values.repository }}:{{ .Values.tag }}';
    const found = await fromStdin(`${pod(image)}${pod('quay.io/x/a:1')}`);
    expect(found.notes).toEqual([
      expect.stringMatching(
        /"\{\{ .+ was not taken: it is a template of a chart: give what 'helm template NAME CHART' prints$/,
      ),
    ]);
  });

  it('leaves out placeholders, says where they are, and asks no registry for them', async () => {
    const placeholders = ['auto', `\${IMAGE}:\${TAG}`, 'controller:latest', 'ko://x/y'];
    const text = [...placeholders, 'nginx:1.25'].map((one) => pod(one)).join('');
    const found = await fromStdin(text, 'docker.io');
    expect(names(found)).toEqual(['docker.io/library/nginx:1.25']);
    expect(found.notes).toEqual(
      placeholders.map((one, at) =>
        expect.stringContaining(
          `standard input: document ${at + 1}, Pod shop/web, spec.containers[0].image: ${JSON.stringify(one)} is`,
        ),
      ),
    );
    expect(found.used).toHaveLength(1);
    // A chart may have nothing else, as that of Istio's gateway.
    expect(await fromStdin(pod('auto'))).toMatchObject({ requests: [], leftOut: 1, notes: [expect.any(String)] });
  });

  it('leaves out what is excepted, as it is written or in full, without a word', async () => {
    const plan = '---\nkind: Plan\nmetadata: {name: k3s}\nspec: {image: rancher/k3s-upgrade}\n';
    const text = `${['auto', 'web:1', 'NGINX:1', 'quay.io/x/a:1'].map((one) => pod(one)).join('')}${plan}`;
    const except = ['auto', 'docker.io/library/web:*', 'NGINX*', '*/k3s-*', 'none'].map((one) => new NamePattern(one));
    const source = { source: '-', shortNames: 'docker.io', except };
    const found = await readImagesFrom(source, () => Readable.from([Buffer.from(text)]), signal);
    expect(names(found)).toEqual(['quay.io/x/a:1']);
    expect([found.notes, found.untaken, found.used.length]).toEqual([[], [], 1]);
    expect(except.map(({ isUsed }) => isUsed)).toEqual([true, true, true, true, false]);
  });

  it('leaves out a malformed file of a folder that names no image, and no other one', async () => {
    writeFileSync(join(folder, 'a.yaml'), pod('quay.io/x/a:1'));
    writeFileSync(join(folder, 'b.yaml'), '{{- if .Values.on }}\na: {\nimagePullPolicy: Always\n');
    const found = await fromPath(folder);
    expect(names(found)).toEqual(['quay.io/x/a:1']);
    expect(found.notes).toEqual([
      expect.stringMatching(/b\.yaml:[0-9]: is not YAML: .*; the file names no image, and is left out$/),
    ]);
    await expect(fromPath(join(folder, 'b.yaml'))).rejects.toThrow(/b\.yaml:[0-9]: is not YAML/);
    for (const text of [
      'a: {\n  image: x\n',
      '{"a": {"image" : "x"}',
      'sidecarImage: x\na: {\n',
      'imageName: x\na: {\n',
      'a: {\n- --run=quay.io/x/run:1\n',
    ]) {
      writeFileSync(join(folder, 'b.yaml'), text);
      await expect(fromPath(folder)).rejects.toThrow(/b\.yaml:[0-9]: is not YAML/);
    }
  });

  it.each(['json', 'yaml'])('takes what opm render prints of an operator as %s', async (form) => {
    const bundle = {
      schema: 'olm.bundle',
      name: 'op.v1',
      image: 'quay.io/x/bundle:1',
      properties: [{ type: 'olm.csv.metadata', value: { annotations: { containerImage: 'quay.io/x/op:1' } } }],
      relatedImages: [
        { name: '', image: 'quay.io/x/bundle:1' },
        { name: 'side', image: 'docker.io/side:1' },
      ],
    };
    const documents = [{ schema: 'olm.package', name: 'op' }, bundle].map((one) => JSON.stringify(one, undefined, 4));
    const found = await fromStdin(documents.join(form === 'json' ? '\n' : '\n---\n'));
    expect(names(found)).toEqual(['quay.io/x/bundle:1', 'docker.io/library/side:1']);
    expect(found.requests[1]?.origin).toBe('standard input: document 2, olm.bundle op.v1, relatedImages[1].image');
    expect(found.notes).toEqual([]);
    expect(untakenNotes(found, found.requests)).toEqual([
      expect.stringMatching(/^standard input: document 2, olm\.bundle op\.v1, properties\[0\].*: quay\.io\/x\/op:1 /),
    ]);
  });

  it('says in one line that a kustomize folder is to be rendered first', async () => {
    mkdirSync(join(folder, 'base'));
    const put = (name: string, text: string) => writeFileSync(join(folder, name), text);
    put('base/kustomization.yaml', 'resources: [web.yaml]\nimages: [{name: quay.io/x/a, newTag: v2}]\n');
    put('base/patch.yaml', '- op: remove\n  path: /spec\n');
    put('base/web.yaml', pod('quay.io/x/a:1'));
    put('Kustomization', 'resources: [base]\n');
    const line = `${folder} is a kustomize folder (and 1 more): render it first, as 'kubectl kustomize ${folder} | stickpin bundle create --images-from - …', since kustomize may give its images other names and tags`;
    const found = await fromPath(folder);
    expect(names(found)).toEqual(['quay.io/x/a:1']);
    expect(found.notes).toEqual([line]);
    put('base/web.yaml', pod('controller:v1'));
    await expect(fromPath(folder)).rejects.toThrow(line);
    put('base/web.yaml', pod('controller:latest'));
    expect((await fromPath(folder)).notes).toEqual([
      line,
      expect.stringContaining('"controller:latest" is a placeholder'),
    ]);
    await expect(fromPath(join(folder, 'base', 'kustomization.yaml'))).rejects.toThrow(/base is a kustomize folder: /);
  });

  it('counts an image without a tag as taken when its repository is', async () => {
    const plan = "---\nkind: Plan\nmetadata: {name: k3s}\nspec: {image: rancher/k3s-upgrade, other: 'redis'}\n";
    const found = await fromStdin(`${pod('docker.io/rancher/k3s-upgrade:v1')}${plan}`);
    expect(untakenNotes(found, found.requests)).toEqual([]);
    expect(untakenNotes(found, [])).toHaveLength(1);
  });

  it('names what stands outside of pods when no pod has an image', async () => {
    const plan = "kind: Plan\nmetadata: {name: k3s}\nspec: {image: rancher/k3s-upgrade, baseImage: 'x:1'}\n";
    await expect(fromStdin(plan)).rejects.toThrow(
      /no pod with an image is in .*; outside of pods there are rancher\/k3s-upgrade \(standard input: document 1, Plan k3s, spec\.image\), x:1 \(.*: give those that are needed with --image$/,
    );
  });

  it('names images in documents within documents', async () => {
    const values = 'image:\n      repository: x/a\n      tag: "1"\n';
    const found = await fromStdin(
      `${pod('quay.io/x/b:1')}---\nkind: HelmChart\nmetadata: {name: a}\nspec:\n  values: |\n    ${values}`,
    );
    expect(untakenNotes(found, found.requests)).toEqual([
      expect.stringContaining('document 2, HelmChart a, spec.values, image.repository: x/a:1 looks like an image'),
    ]);
  });

  it.each([
    ['UTF-8 with a byte order mark', (text: string) => Buffer.from(`\ufeff${text}`)],
    ['UTF-16LE without a mark', (text: string) => Buffer.from(text, 'utf16le')],
    ['UTF-16BE without a mark', (text: string) => Buffer.from(text, 'utf16le').swap16()],
    ['UTF-16LE', (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le')],
    ['UTF-16BE', (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le').swap16()],
  ])('reads %s from files and stdin', async (_name, encode) => {
    const bytes = encode(`# ä\n${pod('quay.io/x/a:1')}`);
    writeFileSync(join(folder, 'a.yaml'), bytes);
    expect(names(await fromPath(folder))).toEqual(['quay.io/x/a:1']);
    expect(names(await fromStdin(bytes))).toEqual(['quay.io/x/a:1']);
  });

  it('refuses a path that is absent', async () => {
    await expect(fromPath(join(folder, 'nowhere'))).rejects.toThrow(/nowhere can't be read/);
    await expect(fromPath(folder)).rejects.toThrow(/there is no \*\.yaml/);
  });

  it('names documents that are no objects, and images outside of pods that nobody takes', async () => {
    const custom =
      "---\nkind: Prometheus\nmetadata: {name: main}\nspec: {image: 'quay.io/x/p:1', other: 'docker.io/b:1'}\n";
    const found = merged([
      await fromStdin(
        `image: quay.io/x/v:1\n${pod('docker.io/library/b:1')}${custom}${custom}- just a list\n`.replace(
          '- just',
          '---\n- just',
        ),
      ),
    ]);
    expect(found.notes).toEqual([
      'standard input: document 1 (line 1) is no Kubernetes object: it has no kind; only the images of pods in it were taken',
      'standard input: document 5 (line 15) is no Kubernetes object: it has no kind; only the images of pods in it were taken',
    ]);
    expect(untakenNotes(found, found.requests)).toEqual([
      'standard input: document 1, image: quay.io/x/v:1 looks like an image, but stands outside of a pod, and was not taken: add it with --image if it is needed',
      'standard input: document 3, Prometheus main, spec.image: quay.io/x/p:1 looks like an image, but stands outside of a pod, and was not taken: add it with --image if it is needed',
    ]);
  });

  it('stops when it is aborted while it waits for stdin', async () => {
    const stop = new AbortController();
    const waiting = readImagesFrom(
      { source: '-' },
      () => new Readable({ read: () => undefined, signal: stop.signal }),
      stop.signal,
    );
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});
