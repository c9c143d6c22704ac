import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { runCommand } from '../../support/run-command.ts';

const images = ['a', 'b'].map((seed) => sampleImage({ seed, architecture: 'amd64' }));
const [first, second] = images.map((image) => image.top.digest);

const root = folderForEach();
let layout: string;
beforeEach(() => {
  layout = join(root, 'layout');
  writeOciLayout(
    layout,
    images.map((image, at) => ({ image, names: [at === 0 ? 'a' : 'b'] })),
  );
});

/** Runs `bundle create` over a list of these lines, in which `A` and `B` stand for the sources. */
async function create(lines: readonly string[], ...more: string[]) {
  const file = join(root, 'images.txt');
  writeFileSync(file, lines.map((line) => line.replace(/=([AB])\b/, (_, name: string) => source(name))).join('\n'));
  const fixed = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'];
  const args = ['bundle', 'create', ...fixed, '--out', join(root, 'bundle'), '--images-file', file, ...more];
  return { ...(await runCommand(args)), file };
}

const source = (name: string) => `=oci:${layout}:${name.toLowerCase()}`;

describe('--images-file', () => {
  it('adds its images after those of --image, and prints the digests of resolved tags', async () => {
    const more = ['--image', `quay.io/x/one:1${source('A')}`];
    const { stderr, exitCode } = await create(['# list', 'quay.io/x/two:1=B pin=false'], ...more);
    expect(exitCode, stderr).toBe(0);
    expect(stderr).toContain(`quay.io/x/one:1 is ${first}\nquay.io/x/two:1 is ${second}\n`);
    const { contents } = JSON.parse((await runCommand(['bundle', 'inspect', join(root, 'bundle'), '--json'])).stdout);
    expect(contents.images.map(({ pin }: { pin: boolean }) => pin)).toEqual([true, false]);
  });

  it('takes short names from the registry of --short-names', async () => {
    const refused = await create(['one:1=A']);
    expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining('images.txt:1: ')]);
    const { stderr, exitCode } = await create(['one:1=A', 'x/two:1=B'], '--short-names', 'docker.io');
    expect(exitCode, stderr).toBe(0);
    expect(stderr).toContain(`docker.io/library/one:1 is ${first}\ndocker.io/x/two:1 is ${second}\n`);
  });

  it('is joined by --pause-image, whose image has its name and a pin, and counts in the sizes', async () => {
    const more = ['--pause-image', `registry.k8s.io/pause:3.10${source('B')}`, '--json'];
    const { stdout, stderr, exitCode } = await create(['quay.io/x/one:1=A'], ...more);
    expect(exitCode, stderr).toBe(0);
    expect(JSON.parse(stdout).payload.totals.images).toBe(2);
    const { contents } = JSON.parse((await runCommand(['bundle', 'inspect', join(root, 'bundle'), '--json'])).stdout);
    expect(contents.images).toContainEqual(
      expect.objectContaining({
        reference: `registry.k8s.io/pause@${second}`,
        tags: ['registry.k8s.io/pause:3.10'],
        pin: true,
      }),
    );
  });

  it('reports a resolved tag, and nothing of a digest that was given, as JSON', async () => {
    const { stdout } = await create(['quay.io/x/one:1=A', `quay.io/x/two:1@${second}=B`], '--json');
    expect(JSON.parse(stdout).resolved).toEqual({ 'quay.io/x/one:1': first });
  });

  it('makes one image of duplicates and of tags of the same digest', async () => {
    const lines = ['quay.io/x/one:1=A', 'quay.io/x/one:1=A', `quay.io/x/one:2@${first}=A`, 'quay.io/x/one:3=B'];
    const { exitCode, stdout, stderr } = await create(lines, '--json');
    expect(exitCode, stderr).toBe(0);
    expect(JSON.parse(stdout).payload.totals.images).toBe(2);
    const { contents } = JSON.parse((await runCommand(['bundle', 'inspect', join(root, 'bundle'), '--json'])).stdout);
    const shape = contents.images.map((image: { tags: string[] }) => image.tags);
    expect(shape).toEqual([['quay.io/x/one:1', 'quay.io/x/one:2'], ['quay.io/x/one:3']]);
  });

  it.each([
    ['one tag with two digests', ['quay.io/x/one:1=A', 'quay.io/x/one:1=B'], 2, 'twice with different digests'],
    [
      'an image pinned and not',
      ['quay.io/x/one:1=A', '', 'quay.io/x/one:2=A pin=false'],
      3,
      'but only one of them is to be pinned',
    ],
    ['two components', ['m=quay.io/x/one:1=A', 'n=quay.io/x/one:2=A'], 2, 'two components: m and n'],
  ])('refuses %s, and names both lines', async (_name, lines, line, why) => {
    const { exitCode, stderr, file } = await create(lines);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(`${file}:${line}: quay.io/x/one:`);
    expect(stderr).toContain(why);
    expect(stderr).toContain(`(first in ${file}:1)`);
    expect(readdirSync(root).sort()).toEqual(['images.txt', 'layout']);
  });

  it('names the line of an image that is missing in the source', async () => {
    const { exitCode, stderr, file } = await create(['quay.io/x/one:1=A', `quay.io/x/two:1=oci:${layout}:c`]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`${file}:2: oci:${layout} (c)`);
  });

  it('is UTF-8, and another encoding is an error', async () => {
    const latin = join(root, 'latin.txt');
    writeFileSync(latin, Buffer.from('# für alle\nquay.io/x/one:1', 'latin1'));
    const made = await create(['quay.io/x/one:1=A'], '--images-file', latin);
    expect(made).toMatchObject(ended(2, `${latin} is not UTF-8 text`));
    const absent = join(root, 'absent.txt');
    expect(await create(['quay.io/x/one:1=A'], '--images-file', absent)).toMatchObject(
      ended(1, `images file ${absent} can't be read`),
    );
  });

  it('is named when it lists no image', async () => {
    const empty = join(root, 'empty.txt');
    writeFileSync(empty, '# none yet\n');
    const made = await create(['quay.io/x/one:1=A'], '--images-file', empty);
    expect(made).toMatchObject(ended(0, `warning: ${empty} lists no image\n`));
  });

  it('says that a list without images makes no bundle', async () => {
    expect(await create(['# none'])).toMatchObject(ended(2, 'no image'));
  });
});
