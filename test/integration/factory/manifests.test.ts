import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { runCommand } from '../../support/run-command.ts';

const root = folderForEach();
let manifests: string;
beforeEach(() => {
  manifests = join(root, 'manifests');
  mkdirSync(manifests);
  writeOciLayout(join(root, 'layout'), [{ image: sampleImage({ seed: 'app', architecture: 'amd64' }) }]);
});

function create(...more: string[]) {
  const fixed = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'];
  const image = ['--image', `quay.io/x/app:2.6.2-rev1-b5=oci:${join(root, 'layout')}`];
  return runCommand([
    ...['bundle', 'create', ...fixed, ...image, '--out', join(root, 'bundle')],
    ...['--manifests', manifests, ...more],
  ]);
}

function put(name: string, ...images: string[]): string {
  const containers = images.map((image, at) => `  - name: c${at}\n    image: ${image}\n`);
  writeFileSync(
    join(manifests, name),
    `kind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n${containers.join('')}`,
  );
  return join(manifests, name);
}

describe('--manifests', () => {
  it('gives no warning for images that the bundle carries, derived tags included', async () => {
    put('web.yaml', 'quay.io/x/app:2.6.2-rev1', 'quay.io/x/app:2.6.2-rev1-b5');
    const made = await create('--json');
    expect(made.exitCode, made.stderr).toBe(0);
    expect(JSON.parse(made.stdout).payload.warnings).toBeUndefined();
  });

  it('warns on the screen and in the payload', async () => {
    const file = put('web.yaml', 'quay.io/x/app:2.6.1', 'quay.io/x/other', 'nginx:1');
    const made = await create();
    expect(made.exitCode, made.stderr).toBe(0);
    const expected = [
      `${file}: Pod web, container c0: image quay.io/x/app:2.6.1 is not in the bundle by that tag: the bundle has only the tags 2.6.2-rev1-b5, 2.6.2-rev1, 2.6.2 of its repository`,
      `${file}: Pod web, container c1: image quay.io/x/other has no tag, which means imagePullPolicy Always: the node asks the registry each time it starts; use a version`,
      `${file}: Pod web, container c1: image quay.io/x/other is not in the bundle`,
      `${file}: Pod web, container c2: image nginx:1 is not in the bundle: it has no full name, as quay.io/…`,
    ];
    expect(made.stderr).toContain(expected.map((line) => `warning: ${line}\n`).join(''));
    const inspected = await runCommand(['bundle', 'inspect', join(root, 'bundle'), '--json']);
    expect(JSON.parse(inspected.stdout).payload.warnings).toEqual(expected);
  });

  it('shows all warnings where the payload has no room for them', async () => {
    put('many.yaml', ...Array.from({ length: 300 }, (_, at) => `quay.io/y/n${at}:1`));
    const made = await create();
    expect(made.stderr.match(/is not in the bundle\n/g)).toHaveLength(300);
    const inspected = await runCommand(['bundle', 'inspect', join(root, 'bundle'), '--json']);
    const { warnings } = JSON.parse(inspected.stdout).payload;
    expect(warnings).toHaveLength(256);
    expect(warnings.at(-1)).toBe('… and 45 more warnings');
  });

  it('makes no bundle of a manifest that it can not read, and names the line', async () => {
    writeFileSync(join(manifests, 'bad.yaml'), 'kind: Pod\nspec: {image: x\n');
    const made = await create();
    expect(made).toMatchObject({ exitCode: 1, stdout: '' });
    expect(made.stderr).toMatch(/^stickpin: .*bad\.yaml:\d+: is not YAML: [^\n]+\n$/);
    expect(readdirSync(root).sort()).toEqual(['layout', 'manifests']);
  });

  it('makes no bundle with --strict when there is a warning, and names each', async () => {
    const file = put('web.yaml', 'quay.io/x/other:1', 'nginx:1');
    const made = await create('--strict', '--json');
    expect(made.exitCode).toBe(1);
    expect(JSON.parse(made.stdout)).toMatchObject({ error: { code: 'bundle/warnings', exitCode: 1 } });
    expect(made.stderr).toMatch(/^stickpin: 2 warnings are errors with --strict, and no bundle was made: /);
    expect(made.stderr).toContain(`${file}: Pod web, container c0: image quay.io/x/other:1 is not in the bundle; `);
    expect(made.stderr).toContain('container c1: image nginx:1 is not in the bundle');
    expect(readdirSync(root).sort()).toEqual(['layout', 'manifests']);
  });

  it('makes the bundle with --strict when nothing is to be warned of', async () => {
    put('web.yaml', 'quay.io/x/app:2.6.2-rev1');
    const made = await create('--strict');
    expect(made.exitCode, made.stderr).toBe(0);
    expect(readdirSync(root).sort()).toEqual(['bundle', 'layout', 'manifests']);
  });

  it('counts an empty list of images as a warning', async () => {
    put('web.yaml', 'quay.io/x/app:2.6.2-rev1');
    const list = join(root, 'images.txt');
    writeFileSync(list, '# none\n');
    const made = await create('--strict', '--images-file', list);
    expect(made).toMatchObject({ exitCode: 1, stdout: '' });
    expect(made.stderr).toContain(`with --strict, and no bundle was made: ${list} lists no image\n`);
  });
});
