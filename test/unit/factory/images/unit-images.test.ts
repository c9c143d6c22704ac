import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { formatReference } from '../../../../src/domain/model/reference.ts';
import { readImagesFrom } from '../../../../src/factory/images/images-from.ts';
import { manifestWarnings } from '../../../../src/factory/images/manifest-warnings.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const folder = folderForEach();
const { signal } = new AbortController();

/** Reads a file, or the folder of all files where no source is named. */
async function read(files: Readonly<Record<string, string>>, source = '', shortNames?: string) {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const found = await readImagesFrom({ source: join(folder, source), shortNames }, () => Readable.from([]), signal);
  const names = found.requests.map(({ reference }) => formatReference(reference));
  return { ...found, names, origins: found.requests.map(({ origin }) => origin) };
}

describe('readImagesFrom of a Quadlet unit', () => {
  const web = `# The shop
[Unit]
Description=Image=quay.io/not/this:1
[Container]
Image=quay.io/x/web:1
; a comment
Exec=serve \\
  --port 80
Pull=newer
[Install]
WantedBy=default.target
`;

  it('takes the image of a container, an image and a volume, with its place', async () => {
    const files = { 'web.container': web, 'data.volume': '[Volume]\nDriver=image\nImage="quay.io/x/data:2"\n' };
    const found = await read({ ...files, 'app.image': '[Image]\nImage = quay.io/x/old:1\nImage = quay.io/x/app:3\n' });
    expect(found.names).toEqual(['quay.io/x/app:3', 'quay.io/x/data:2', 'quay.io/x/web:1']);
    expect(found.origins[2]).toBe(`${join(folder, 'web.container')}: [Container] Image`);
    expect(found.notes).toEqual([]);
  });

  it('warns of a unit that always asks the registry, and of none for the tag alone', async () => {
    const found = await read({ 'web.container': web, 'b.container': '[Container]\nImage=quay.io/x/b:latest\n' });
    expect(manifestWarnings(found.used, []).filter((text) => text.includes('Always'))).toEqual([
      expect.stringContaining('imagePullPolicy of quay.io/x/web:1 is Always'),
    ]);
  });

  it('follows Yaml= of a .kube to the manifests beside it', async () => {
    const pod = (name: string) =>
      `kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: 'quay.io/x/${name}:1'}]}\n`;
    const files = {
      'app.kube': '[Kube]\nYaml=app.yaml\nYaml=sub/more.yml\n',
      'app.yaml': pod('a'),
      'sub/more.yml': pod('b'),
    };
    expect((await read(files, 'app.kube')).names).toEqual(['quay.io/x/a:1', 'quay.io/x/b:1']);
    expect((await read(files)).names).toEqual(['quay.io/x/a:1', 'quay.io/x/b:1']);
  });

  it('names a unit that another one builds or pulls for it', async () => {
    const found = await read({
      'a.container': '[Container]\nImage=web.build\n',
      'b.image': '[Image]\nImage=quay.io/x/b:1\n',
    });
    expect(found.notes).toEqual([
      `${join(folder, 'a.container')}: its image is that of the unit web.build, which has to be given too`,
    ]);
  });

  it('lets a drop-in change the image', async () => {
    const files = { 'web.container': web, 'web.container.d/10-pin.conf': '[Container]\nImage=quay.io/x/web:2\n' };
    expect((await read(files, 'web.container')).names).toEqual(['quay.io/x/web:2']);
    expect((await read(files)).names).toEqual(['quay.io/x/web:2']);
  });

  it('takes mounted images, and the policy of an image', async () => {
    const mounts =
      'Mount=type=image,source=quay.io/x/model:1,destination=/m\nMount=type=bind,source=/a,destination=/b\n';
    const found = await read({
      'a.container': `[Container]\nImage=quay.io/x/a:1\n${mounts}`,
      'b.image': '[Image]\nImage=quay.io/x/b:1\nPolicy=always\n',
    });
    expect(found.names).toEqual(['quay.io/x/a:1', 'quay.io/x/model:1', 'quay.io/x/b:1']);
    expect(manifestWarnings(found.used, []).filter((text) => text.includes('Always'))).toHaveLength(1);
  });

  it('leaves out in a folder what is no unit, as the image of a disk', async () => {
    const found = await read({
      'a.container': '[Container]\nImage=quay.io/x/a:1\n',
      'disk.image': 'x'.repeat(17 << 20),
    });
    expect([found.names, found.notes]).toEqual([['quay.io/x/a:1'], []]);
    await expect(read({}, 'disk.image')).rejects.toThrow('16777216 are allowed');
  });

  it('reads a unit that names itself once, and names a path with a specifier', async () => {
    await expect(read({ 'a.kube': '[Kube]\nYaml=a.kube\n' }, 'a.kube')).rejects.toThrow('a.kube');
    const found = await read(
      { 'b.kube': '[Kube]\nYaml=%h/b.yaml\n', 'c.image': '[Image]\nImage=quay.io/x/c:1\n' },
      '',
    ).catch((error: Error) => error);
    expect(found).toBeInstanceOf(Error);
  });

  it('refuses a manifest that is missing', async () => {
    await expect(read({ 'app.kube': '[Kube]\nYaml=none.yaml\n' }, 'app.kube')).rejects.toThrow(
      join(folder, 'none.yaml'),
    );
  });
});

describe('readImagesFrom of a Compose file', () => {
  const compose = `services:
  web: {image: 'nginx:1.25', pull_policy: always, ports: ['80:80']}
  db:
    image: quay.io/x/db
volumes: {data: {}}
`;

  it('takes the image of each service', async () => {
    const found = await read({ 'compose.yaml': compose }, 'compose.yaml', 'docker.io');
    expect(found.names).toEqual(['docker.io/library/nginx:1.25', 'quay.io/x/db']);
    expect(found.origins[1]).toBe(`${join(folder, 'compose.yaml')}: document 1, services.db.image`);
    expect(found.notes).toEqual([]);
    const always = manifestWarnings(found.used, []).filter((text) => text.includes('Always'));
    expect(always).toEqual([expect.stringContaining('service web: imagePullPolicy of docker.io/nginx:1.25 is Always')]);
  });

  it('names variables, and services that are built', async () => {
    const more = '  app: {build: .}\n  job: {image: "quay.io/x/job:<TAG>"}\n';
    const found = await read(
      { 'compose.yaml': compose.replace('volumes', `${more}volumes`) },
      'compose.yaml',
      'docker.io',
    );
    expect(found.notes).toEqual([
      expect.stringContaining('"quay.io/x/job:<TAG>" is a placeholder or a pattern'),
      expect.stringContaining('service app names no image here, so none was taken'),
    ]);
  });
});

describe('readImagesFrom of a Compose file that needs more', () => {
  it.each([
    ["include: [db.yaml]\nservices: {web: {image: 'quay.io/x/web:1'}}\n", 'it needs other files'],
    [
      "services: {web: {image: 'quay.io/x/web:1'}, db: {extends: {file: db.yaml, service: db}}}\n",
      'it needs other files',
    ],
    ["services: {web: {image: 'quay.io/x/web:1'}, db: null}\n", 'service db names no image here'],
  ])('says so: %j', async (text, note) => {
    const found = await read({ 'compose.yaml': text }, 'compose.yaml');
    expect(found.names).toEqual(['quay.io/x/web:1']);
    expect(found.notes.join()).toContain(note);
  });

  it('knows pull policies that ask a registry now and then', async () => {
    const found = await read({ 'c.yaml': "services: {a: {image: 'quay.io/x/a:1', pull_policy: daily}}\n" }, 'c.yaml');
    expect(manifestWarnings(found.used, []).filter((text) => text.includes('Always'))).toHaveLength(1);
  });

  it('ignores a pull policy of another type', async () => {
    const service = "{image: 'quay.io/x/a:1', pull_policy: {toString: daily}}";
    const found = await read({ 'c.yaml': `services: {a: ${service}}\n` }, 'c.yaml');
    expect(manifestWarnings(found.used, []).join()).not.toContain('Always');
  });
});

describe('readImagesFrom of the images of a MicroShift release', () => {
  it('takes each of them', async () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    const images = {
      'haproxy-router': `quay.io/openshift-release-dev/ocp-v4.0-art-dev@${digest}`,
      pod: 'registry.k8s.io/pause:3.10',
    };
    const found = await read(
      { 'release-x86_64.json': JSON.stringify({ release: { base: '4.18.3' }, images }) },
      'release-x86_64.json',
    );
    expect(found.names).toEqual([images['haproxy-router'], images.pod]);
    expect([found.notes, found.untaken.length > 0]).toEqual([[], true]);
  });
});
