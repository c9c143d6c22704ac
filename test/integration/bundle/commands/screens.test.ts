import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../../support/bundles/sample-image.ts';
import { runCommand } from '../../../support/run-command.ts';

const RELEASE = ['--name', 'ocp', '--version', '4.13.7', '--arch', 'amd64', '--sequence', '7'] as const;
const IMAGES = [
  '--image',
  'quay.example.com/coreos/etcd:3.5.9=oci:layout:etcd',
  '--image',
  'edge-proxy=quay.example.com/edge/proxy=oci:layout:proxy',
] as const;

/** The name of the file, and the command, in the order of a first day in the factory. */
const SCREENS: readonly (readonly [string, readonly string[]])[] = [
  ['keygen', ['keygen', '--out', 'keys.d/factory']],
  ['keygen-again', ['keygen', '--out', 'keys.d/factory']],
  ['create', ['bundle', 'create', ...RELEASE, ...IMAGES, '--key', 'keys.d/factory.key', '--out', 'bundle']],
  ['create-unsigned', ['bundle', 'create', ...RELEASE, ...IMAGES, '--out', 'unsigned']],
  ['create-over', ['bundle', 'create', ...RELEASE, ...IMAGES, '--out', 'bundle']],
  ['create-nothing', ['bundle', 'create', ...RELEASE, '--out', 'nothing']],
  [
    'create-no-image',
    ['bundle', 'create', ...RELEASE, '--image', 'a.example.com/x:1=oci:layout:nope', '--out', 'nope'],
  ],
  ['sign', ['bundle', 'sign', 'unsigned', '--key', 'keys.d/factory.key']],
  ['sign-no-key', ['bundle', 'sign', 'unsigned', '--key', 'nobody.key']],
  ['inspect', ['bundle', 'inspect', 'bundle']],
  ['verify', ['bundle', 'verify', 'bundle', '--keys', 'keys.d', '--full']],
  ['verify-other-keys', ['bundle', 'verify', 'bundle', '--keys', 'others.d']],
  ['rehearse', ['bundle', 'rehearse', 'bundle', '--keys', 'keys.d']],
  ['rehearse-other-keys', ['bundle', 'rehearse', 'bundle', '--keys', 'others.d']],
  ['envelope', ['bundle', 'envelope', 'bundle', '--out', 'envelope']],
  ['serve', ['bundle', 'serve', 'bundle', '--keys', 'keys.d', '--listen', '127.0.0.1:0']],
  ['write-no-device', ['bundle', 'write', 'bundle', '/dev/null']],
];

/** What a terminal shows in the end: a line that was written over shows what came last. */
const settled = (text: string) =>
  text
    .split('\n')
    .map((line) => line.replaceAll('\u001b[K', '').split('\r').at(-1) ?? '')
    .join('\n');

/** What differs each time, replaced so that its length stays, and lines break where they do. */
const repeatable = (text: string, root: string) =>
  text
    .replaceAll(/[0-9a-f]{12,64}/g, (hex) => 'ab'.repeat(32).slice(0, hex.length))
    .replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:5000')
    .replaceAll(root, `${root.slice(0, -6)}XXXXXX`)
    .replaceAll(/in \d+\.\d s/g, 'in 0.2 s')
    .replaceAll(/, \d+ [KM]iB\/s/g, ', 90 KiB/s')
    // Images are loaded side by side.
    .replaceAll(/(?:^ +[a-z-]+: .* in 0\.2 s.*\n)+/gm, (lines) =>
      lines
        .split(/(?<=\n)/)
        .sort()
        .join(''),
    );

/** What both streams show, stdout first, and how the command ended. */
const screen = async (args: readonly string[], root: string, hasColour: boolean) => {
  const terminal = { columns: 80, hasColour, stderrColumns: 80, stderrHasColour: hasColour };
  const interrupt = new AbortController();
  const onOutput = (stdout: string) => {
    if (stdout.includes('until interrupted')) interrupt.abort();
  };
  const { stdout, stderr, exitCode } = await runCommand(args, { terminal, signal: interrupt.signal, onOutput });
  return `${repeatable(settled(stdout) + settled(stderr), root)}exit code ${exitCode}\n`;
};

/** Lines that a terminal of 80 columns breaks, apart from one long word and commands to copy. */
const tooWide = (shown: string) =>
  shown
    .split('\n')
    .filter((line) => line.length > 80 && line.trim().split(/\s+/).length > 1 && !/^ {2}(skopeo|ctr) /.test(line));

describe('screens of the factory', () => {
  const cwd = process.cwd();
  let root: string;

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'stickpin-screens-'));
    process.chdir(root);
    writeOciLayout('layout', [
      { image: sampleImage({ seed: 'etcd', architecture: 'amd64' }), names: ['etcd'] },
      { image: sampleImage({ seed: 'proxy', architecture: 'amd64', withIndex: true }), names: ['proxy'] },
    ]);
    for (const folder of ['keys.d', 'others.d']) mkdirSync(folder);
    await runCommand(['keygen', '--out', 'others.d/other']);
    writeFileSync('others.d/README', 'no key\n');
  });
  afterAll(() => {
    process.chdir(cwd);
    rmSync(root, { recursive: true, force: true });
  });

  it.each([
    ['without colours', '.txt', false],
    ['with colours', '.colour.txt', true],
  ])('look as they did, %s', async (_name, ending, hasColour) => {
    for (const made of ['keys.d', 'bundle', 'unsigned', 'envelope']) rmSync(made, { recursive: true, force: true });
    mkdirSync('keys.d');
    for (const [name, args] of SCREENS) {
      // The escape character is shown as ^, so that a person can read the file.
      const shown = (await screen(args, root, hasColour)).replaceAll('\u001b', '^');
      await expect(shown).toMatchFileSnapshot(`screens/${name}${ending}`);
      if (!hasColour) expect(tooWide(shown)).toEqual([]);
    }
  });
});
