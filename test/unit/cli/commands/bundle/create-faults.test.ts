import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../../../support/files/temporary-folder.ts';
import { runCommand } from '../../../../support/run-command.ts';

let root: string;
beforeEach(() => {
  root = temporaryFolder();
});

const write = (name: string, text: string) => {
  writeFileSync(join(root, name), text);
  return join(root, name);
};
const create = (...args: readonly string[]) => runCommand(['bundle', 'create', ...args]);

describe('bundle create with several faults', () => {
  it('names all missing flags at once', async () => {
    const { exitCode, stderr } = await create();
    expect(exitCode).toBe(2);
    for (const flag of ['name', 'version', 'arch', 'sequence', 'out']) expect(stderr).toContain(`'--${flag} <`);
    expect(stderr).toContain('no image is given');
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it('asks for no name of a bundle that is on an OpenShift medium', async () => {
    const { stderr } = await create('--from-openshift-iso', join(root, 'iso'), '--sequence', '1');
    expect(stderr).toBe("stickpin: required option '--out <dir>' not specified; see 'stickpin bundle create --help'\n");
  });

  it('names wrong values, combinations and files together, and writes nothing', async () => {
    mkdirSync(join(root, 'full'));
    write('full/file', '');
    const { exitCode, stderr } = await create(
      ...['--name', 'OCP', '--version', '1.0.0', '--arch', 'arm', '--sequence', 'x', '--out', join(root, 'full')],
      ...['--image', 'not an image', '--retry', 'often', '--release', 'release:4'],
      ...['--images-file', write('images.txt', 'a.example.com/x:1\n:::\nb.example.com/y:1 pin=maybe\n')],
      ...['--expires', 'soon', '--deadend', ' ', '--rollout-minutes', '5', '--trust-role', 'customer'],
      ...['--advisory', join(root, 'no-advisory'), '--trust-key', join(root, 'no.pub')],
      ...['--attach', join(root, 'no-file'), '--authfile', join(root, 'no-auth')],
      ...['--key', join(root, 'no.key'), '--signer', 'true'],
    );
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/^stickpin: 18 faults: \(1\) /);
    for (const what of [
      "'arm'",
      "'--sequence <number>' argument 'x'",
      "'not an image'",
      "'release:4'",
      "'often'",
      'images.txt:2',
      'images.txt:3',
      'name: must match',
      'expires: must be a time',
      '--deadend has no reason',
      '--rollout-minutes needs --rollout-start',
      'no-advisory',
      'no.pub',
      'no-file',
      'no-auth',
      'no.key',
      '--signer is given 1 times',
      'full',
    ])
      expect(stderr).toContain(what);
    expect(readdirSync(root).sort()).toEqual(['full', 'images.txt']);
  });
});

describe('a call with an unknown flag', () => {
  it('names it first, with all others, then what is missing', async () => {
    const { exitCode, stderr } = await create('--sequenz', '7', '--no-such');
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(
      /^stickpin: \d faults: \(1\) unknown option '--sequenz'; \(2\) unknown option '--no-such'; \(3\) /,
    );
    expect(stderr).toContain("required option '--sequence <number>' not specified");
    const verify = await runCommand(['bundle', 'verify', '--key', 'keys']);
    expect(verify.stderr).toBe(
      "stickpin: 2 faults: (1) unknown option '--key'; (2) required option '--keys <file|dir>' not specified; see 'stickpin bundle verify --help'\n",
    );
  });

  it('is still alone when nothing else is wrong', async () => {
    expect((await runCommand(['list', '--frobnicate'])).stderr).toBe(
      "stickpin: unknown option '--frobnicate'; see 'stickpin list --help'\n",
    );
  });
});

describe('config check with several faults', () => {
  it('names those of all files at once', async () => {
    const folder = join(root, 'stickpin.toml.d');
    mkdirSync(folder);
    write('stickpin.toml.d/a.toml', '[preload]\nparallell = 3\nstall = "soon"\n');
    write('stickpin.toml.d/b.toml', '[trust\n');
    write('stickpin.toml.d/c.conf', '');
    write('stickpin.toml.d/d.toml', '[trust]\nthreshold = 0\n');
    const { exitCode, stderr } = await runCommand(['config', 'check'], { settings: { fragments: [{ folder }] } });
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^stickpin: 5 faults: \(1\) /);
    for (const what of ['preload.parallell', 'preload.stall', 'b.toml is not TOML', 'c.conf', 'trust.threshold'])
      expect(stderr).toContain(what);
  });

  it('names settings that do not fit together at once', async () => {
    const file = write('stickpin.toml', '[update]\nstrategy = "window"\n[fleet]\nenabled = true\nauth = "none"\n');
    const { stderr } = await runCommand(['config', 'check'], { settings: { fragments: [{ file }] } });
    expect(stderr).toMatch(/^stickpin: 2 faults: .*update\.windows.*fleet\.listen/);
  });
});
