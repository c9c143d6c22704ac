import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { jsonSchemas } from '../../../packaging/json-schemas.ts';
import { configSchema } from '../../../src/cli/commands/bundle/config-file.ts';
import { definedProgram } from '../../../src/cli/manual.ts';
import { sampleImage, sampleLayer, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';
import { startSourceRegistry } from '../../support/source-registry.ts';

const root = folderForEach();
const at = (...names: string[]) => join(root, ...names);
const image = (seed: string) =>
  sampleImage({ seed, architecture: 'amd64', layers: [sampleLayer({ seed: `${seed} layer` })] });
const create = (...more: string[]) =>
  runCommand(['bundle', 'create', '--config', at('product', 'release.yaml'), ...more]);
const payloadOf = (stdout: string) => JSON.parse(stdout).payload;
const bundle = definedProgram().commands.find((command) => command.name() === 'bundle');
const createCommand = bundle?.commands.find((command) => command.name() === 'create');

const BASE = {
  name: 'shop',
  version: '1.4.0',
  arch: 'amd64',
  sequence: 12,
  out: 'out',
  image: ['web=registry.example.com/shop/web:1=oci:layout:web'],
};
const config = (over: object) => writeFileSync(at('product', 'release.yaml'), JSON.stringify({ ...BASE, ...over }));

beforeEach(() => {
  mkdirSync(at('product'));
  writeOciLayout(
    at('product', 'layout'),
    ['web', 'db'].map((name) => ({ image: image(name), names: [name] })),
  );
});

describe('bundle create --config', () => {
  it('takes the options of a file, with paths from its folder', async () => {
    writeFileSync(at('product', 'notes.txt'), 'notes');
    await runCommand(['keygen', '--out', at('product', 'factory')]);
    config({ attach: ['notes.txt'], key: ['factory.key'], manual: true, strict: false, expires: '2027-01-31' });
    const { exitCode, stdout, stderr } = await create('--json');
    expect(exitCode, stderr).toBe(0);
    expect(JSON.parse(stdout).path).toBe(at('product', 'out'));
    expect(payloadOf(stdout)).toMatchObject({
      name: 'shop',
      sequence: 12,
      schedule: 'manual',
      expires: '2027-01-31T23:59:59Z',
      attachments: [{ name: 'notes.txt' }],
    });
    expect(stderr).not.toContain('not signed');
  });

  it('is overridden by the command line, which adds to what may be repeated', async () => {
    config({ manual: true, from: '>=1.0.0 <1.4.0', attach: [] });
    const layout = at('product', 'layout');
    const more = ['--image', `db=registry.example.com/shop/db:1=oci:${layout}:db`, '--sequence', '13'];
    const { stdout, stderr } = await create('--json', '--out', at('other'), '--from', '>=1.3.0 <1.4.0', ...more);
    expect(JSON.parse(stdout), stderr).toMatchObject({
      path: at('other'),
      payload: { sequence: 13, update: { from: '>=1.3.0 <1.4.0' }, totals: { images: 2 } },
    });
    expect(existsSync(at('product', 'out'))).toBe(false);
  });

  it('takes a list of architectures', async () => {
    config({ arch: ['amd64', 'riscv'] });
    expect(await create()).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining(`${at('product', 'release.yaml')}: arch: 'amd64,riscv' is invalid. 'riscv' is`),
    });
  });

  it.each([
    [{ imagez: [] }, 'imagez: is not known'],
    [{ version: 1.4 }, 'version: must be text, and is 1.4: write it in quotes'],
    [{ sequence: 'x' }, 'sequence: must be a number, and is "x"'],
    [{ sequence: -1 }, 'sequence: must be at least 0, and is -1'],
    [{ sequence: 1.5 }, "sequence: '1.5' is invalid. It must be a whole number"],
    [{ image: 'a' }, 'image: must be a list, and is "a"'],
    [{ image: ['ok.example.com/a:1', 7] }, 'image.1: must be text, and is 7'],
    [{ image: ['ok.example.com/a:1', 'A B'] }, "image.1: 'A B' is invalid."],
    [{ image: Array(10_001).fill('a') }, 'image: must be at most 10000 long'],
    [{ name: 'x'.repeat(4097) }, 'name: must be at most 4096 long'],
    [{ name: '' }, 'name: must be at least 1 long'],
    [{ referrers: 'some' }, 'referrers: must be "signatures", "all" or "none", and is "some"'],
    [{ strict: 'yes' }, 'strict: must be true or false, and is "yes"'],
    [{ json: true }, 'json: is not known'],
    [{ config: 'other.yaml' }, 'config: is not known'],
  ])('names the member that is wrong, %#', async (over, message) => {
    config(over);
    const { exitCode, stderr } = await create();
    expect(stderr).toContain(`${at('product', 'release.yaml')}: ${message}`);
    expect(exitCode).toBe(2);
    expect(existsSync(at('product', 'out'))).toBe(false);
  });

  it('names all wrong members at once', async () => {
    config({ version: 1, sequence: 'x', extra: 1 });
    expect((await create()).stderr).toMatch(/3 faults: .*version.*sequence.*extra/);
  });

  it.each([
    ['a: [', 'is not YAML: '],
    ['name: a\nname: b\n', 'is not YAML: Map keys must be unique at line 2, column 1'],
    ['- a\n', 'is a list, and must have members'],
    ['', 'must be an object, and is null'],
    [
      `a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [${'*a,'.repeat(50)}]\nc: [${'*b,'.repeat(90)}]\n`,
      'is not YAML: Excessive alias',
    ],
    [`image: ${'['.repeat(200_000)}`, 'is not YAML: '],
    ['x'.repeat(300_000), 'has 300000 bytes, and 262144 are allowed'],
  ])('says what is wrong with the file %#', async (text, message) => {
    writeFileSync(at('product', 'release.yaml'), text);
    const { exitCode, stderr } = await create();
    expect(stderr).toContain(message);
    expect(exitCode).not.toBe(0);
  });

  it('says that there is no file', async () => {
    expect((await create()).stderr).toContain(`${at('product', 'release.yaml')} can't be read: no such file`);
  });

  it('has a schema with every option but those about one call', () => {
    const properties = Object.keys(JSON.parse(jsonSchemas()['bundle-config.schema.json'] ?? '').properties);
    const names = createCommand?.options.map((option) => option.attributeName()) ?? [];
    const others = ['config', 'dryRun', 'json', 'withoutSignatures'];
    expect([...properties, ...others].sort()).toEqual([...new Set(['$schema', ...names, ...others])].sort());
    expect(names.length).toBeGreaterThan(40);
  });
});

describe.runIf(have('skopeo'))('the example release.yaml', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('makes a bundle', async () => {
    const text = readFileSync('docs/examples/release.yaml', 'utf8');
    if (createCommand === undefined) throw new TypeError('no command');
    expect(v.is(configSchema(createCommand), parse(text))).toBe(true);
    const registry = await startSourceRegistry();
    try {
      registry.add('shop/web', image('web'), ['1.4.0']);
      registry.add('shop/db', image('db'), ['16']);
      mkdirSync(at('.config', 'containers'), { recursive: true });
      const mirror = `[[registry]]\nprefix = "registry.example.com"\nlocation = "${registry.host}"\ninsecure = true\n`;
      writeFileSync(at('.config', 'containers', 'registries.conf'), mirror);
      vi.stubEnv('HOME', root);
      mkdirSync(at('product', 'manifests'));
      const pod = {
        apiVersion: 'v1',
        kind: 'Pod',
        spec: { containers: [{ image: 'registry.example.com/shop/db:16' }] },
      };
      writeFileSync(at('product', 'manifests', 'db.yaml'), JSON.stringify(pod));
      writeFileSync(at('product', 'notes.txt'), 'notes');
      await runCommand(['keygen', '--out', at('product', 'factory')]);
      copyFileSync('docs/examples/release.yaml', at('product', 'release.yaml'));
      const { exitCode, stdout, stderr } = await create('--json');
      expect(exitCode, stderr).toBe(0);
      expect(payloadOf(stdout)).toMatchObject({ name: 'shop', version: '1.4.0', totals: { images: 2 } });
    } finally {
      await registry.close();
    }
  });
});
