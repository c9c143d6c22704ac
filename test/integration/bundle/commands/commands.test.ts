import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../../support/bundles/sample-image.ts';
import { flipByte } from '../../../support/files/flip-byte.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { ended } from '../../../support/matching.ts';
import { runCommand } from '../../../support/run-command.ts';

const root = folderForEach();
let bundle: string;
let keys: string;
const run = (...args: string[]) => runCommand(args);
const NAMED = ['--name', 'ocp', '--version', '4.13.7', '--arch', 'amd64', '--sequence', '7'] as const;
const create = (...args: string[]) => run('bundle', 'create', ...NAMED, '--out', bundle, ...args);

beforeEach(async () => {
  bundle = join(root, 'bundle');
  keys = join(root, 'keys.d');
  mkdirSync(keys);
  writeOciLayout(join(root, 'layout'), [
    { image: sampleImage({ seed: 'etcd', architecture: 'amd64' }), names: ['etcd'] },
    { image: sampleImage({ seed: 'proxy', architecture: 'amd64', withIndex: true }), names: ['proxy'] },
  ]);
  await run('keygen', '--out', join(keys, 'factory'));
});

function imageArgs(): string[] {
  const layout = join(root, 'layout');
  return [
    '--image',
    `quay.example.com/coreos/etcd:3.5.9=oci:${layout}:etcd`,
    '--image',
    `edge-proxy=quay.example.com/edge/proxy=oci:${layout}:proxy`,
  ];
}

describe('keygen', () => {
  it('writes a private key that only its owner reads, and overwrites none', async () => {
    expect(statSync(join(keys, 'factory.key')).mode & 0o777).toBe(0o600);
    const before = readFileSync(join(keys, 'factory.key'));
    const again = await run('keygen', '--out', join(keys, 'factory'));
    expect(again).toMatchObject(ended(1, 'factory.key'));
    expect(readFileSync(join(keys, 'factory.key'))).toEqual(before);
  });

  it('leaves no private key behind when the public one is there already', async () => {
    rmSync(join(keys, 'factory.key'));
    expect((await run('keygen', '--out', join(keys, 'factory'))).exitCode).toBe(1);
    expect(readdirSync(keys)).toEqual(['factory.pub']);
  });

  it('refuses a prefix without a name, which would make hidden files', async () => {
    for (const out of ['', `${keys}/`, '.', '..']) {
      expect(await run('keygen', '--out', out), out).toMatchObject(ended(2, /^stickpin: --out .* name/));
    }
    expect(readdirSync(keys).sort()).toEqual(['factory.key', 'factory.pub']);
  });

  it('refuses an unknown algorithm as wrong usage', async () => {
    expect((await run('keygen', '--out', join(keys, 'x'), '--algorithm', 'rsa')).exitCode).toBe(2);
  });
});

describe('bundle create, sign, inspect, verify', () => {
  it('make, show and prove a bundle', async () => {
    const rules = ['--manual', '--from', '>=4.12.0', '--keep', 'life'];
    const made = await create(...imageArgs(), '--key', join(keys, 'factory.key'), ...rules);
    expect(made).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^ocp 4\.13\.7 for amd64 is in .*: 2 images, 7 blobs/),
    });
    expect(made.stderr).toContain('warning: quay.example.com/edge/proxy has no tag');

    const inspected = JSON.parse((await run('bundle', 'inspect', bundle, '--json')).stdout);
    expect(inspected.payload).toMatchObject({
      created: '2026-03-04T05:06:07Z',
      schedule: 'manual',
      keep: 'life',
      update: { from: '>=4.12.0' },
      sequence: 7,
    });
    expect(inspected.contents.images.map((image: { component: string }) => image.component)).toEqual([
      'etcd',
      'edge-proxy',
    ]);
    const shown = (await run('bundle', 'inspect', bundle)).stdout;
    expect(shown).toContain('quay.example.com/coreos/etcd@sha256:');
    expect(shown).toContain('  keep        life: nodes never retire it by themselves\n');

    const verified = await run('bundle', 'verify', bundle, '--keys', keys, '--full');
    expect(verified).toMatchObject({
      exitCode: 0,
      stdout: 'ocp 4.13.7: signature by factory ok, 7 of 7 blobs read and right\n',
    });
    expect(verified.stderr).toContain('factory.key: keep it out of folders that go to nodes');
  });

  it('refuse an expired bundle with the time of the clock, and still report all other results', async () => {
    const expires = '2026-03-05T00:00:00Z';
    await create(...imageArgs(), '--key', join(keys, 'factory.key'), '--expires', expires);
    const verify = (now: string, ...more: string[]) =>
      runCommand(['bundle', 'verify', bundle, '--keys', keys, ...more], { now: () => Date.parse(now) });
    expect((await verify('2026-03-04T23:59:59.999Z')).exitCode).toBe(0);
    for (const now of ['2026-03-05T00:00:00.000Z', '2031-01-01T00:00:00.000Z']) {
      expect(await verify(now, '--full')).toMatchObject({
        exitCode: 4,
        stdout: 'ocp 4.13.7: signature by factory ok, 7 of 7 blobs read and right\n',
        stderr: expect.stringContaining(`${bundle} expired on ${expires}: this machine's clock says ${now}. `),
      });
    }
    const json = await verify('2031-01-01T00:00:00.000Z', '--json');
    expect(json.exitCode).toBe(4);
    expect(JSON.parse(json.stdout)).toMatchObject({
      verified: false,
      expired: true,
      expires,
      judgedAt: '2031-01-01T00:00:00.000Z',
      missing: [],
    });
    expect(JSON.parse((await verify('2026-03-04T00:00:00Z', '--json')).stdout)).toMatchObject({
      verified: true,
      expired: false,
      judgedAt: '2026-03-04T00:00:00.000Z',
    });
  });

  it('say what nodes make of the rules of a release', async () => {
    const rules = ['--from', '>=4.12.0', '--barrier', 'the storage format changes', '--deadend', 'the last one'];
    const made = await create(...imageArgs(), ...rules);
    expect(made.stderr).not.toMatch(/^warning: .*(?:enforce|barrier|deadend)/m);
    const { stdout } = await run('bundle', 'inspect', bundle);
    expect(stdout).toContain('  barrier     the storage format changes\n');
    expect(stdout).toContain('  dead end    the last one\n');
    expect(stdout).toContain('  from        >=4.12.0\n');
    const help = (await run('bundle', 'create', '--help')).stdout.replace(/\s+/g, ' ');
    expect(help).toContain('from any other one nodes activate it only after a confirmation');
    expect(help).toContain(
      'updates to later releases must pass through this one: nodes activate it and wait until it is proven',
    );
  });

  it('count distinct keys against the threshold', async () => {
    await run('keygen', '--out', join(keys, 'audit'), '--algorithm', 'ecdsa-p256');
    await create(...imageArgs());
    expect(await run('bundle', 'verify', bundle, '--keys', keys)).toMatchObject(ended(4, 'no signature'));
    const sign = (name: string) => run('bundle', 'sign', bundle, '--key', join(keys, `${name}.key`));
    await sign('factory');
    await sign('factory');
    expect(await run('bundle', 'verify', bundle, '--keys', keys, '--threshold', '2')).toMatchObject(
      ended(4, 'signed by factory only, and 2 distinct'),
    );
    expect((await sign('audit')).stdout).toContain('it has 2 signatures now');
    const verified = await run('bundle', 'verify', bundle, '--keys', keys, '--threshold', '2', '--json');
    expect(JSON.parse(verified.stdout)).toMatchObject({ verified: true, signedBy: ['audit', 'factory'] });
  });

  it('find a flipped byte with --full, and name the blob and the file', async () => {
    await create(...imageArgs(), '--key', join(keys, 'factory.key'));
    const { contents } = JSON.parse((await run('bundle', 'inspect', bundle, '--json')).stdout);
    const { digest } = contents.layers[0];
    const file = join(bundle, 'blobs', 'sha256', digest.slice(7));
    flipByte(file, 100);
    expect((await run('bundle', 'verify', bundle, '--keys', keys)).exitCode).toBe(0);
    const full = await run('bundle', 'verify', bundle, '--keys', keys, '--full');
    expect(full).toMatchObject({
      exitCode: 4,
      stdout: expect.stringContaining(`${digest} is damaged: ${file}: it has digest sha256:`),
    });
    expect(full.stderr).toContain('1 of 7 blobs');
  });

  it('verify all bundles of a stick that is named by its root, and tell which one is bad', async () => {
    const stick = join(root, 'stick');
    const on = (name: string) => join(stick, 'stickpin', name);
    mkdirSync(join(stick, 'stickpin'), { recursive: true });
    const verify = (...args: readonly string[]) => run('bundle', 'verify', stick, '--keys', keys, ...args);
    expect(await verify()).toMatchObject(ended(1, 'is a stick without bundles'));
    await create(...imageArgs(), '--key', join(keys, 'factory.key'));
    cpSync(bundle, on('a'), { recursive: true });
    expect(await verify()).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(
        /^stickpin\/a: ocp 4\.13\.7 for amd64, sequence 7: signature by factory ok, 7 of 7 blobs found\n$/,
      ),
    });
    cpSync(bundle, on('b'), { recursive: true });
    writeFileSync(join(on('b'), 'bundle.dsse.json'), '{}');
    const both = await verify();
    expect(both).toMatchObject({ exitCode: 4, stdout: expect.stringContaining(`${on('b')}: not verified\n  `) });
    expect(both.stdout).toContain('7 of 7 blobs found');
    expect(both.stderr).toContain(`1 of 2 bundles on ${stick} would not be taken`);
    const { bundles } = JSON.parse((await verify('--json')).stdout);
    expect(bundles).toMatchObject([
      { verified: true, name: 'ocp' },
      { verified: false, path: on('b') },
    ]);
  });

  it('verify judges all bundles of a stick together, as a node that knows none of them', async () => {
    const stick = join(root, 'stick');
    mkdirSync(join(stick, 'stickpin'), { recursive: true });
    const make = async (folder: string, flags: Readonly<Record<string, string>>) => {
      const named = { name: 'ocp', version: '4.13.7', arch: 'amd64', sequence: '37', ...flags };
      const args = Object.entries(named).flatMap(([flag, value]) => [`--${flag}`, value]);
      const out = ['--out', join(stick, 'stickpin', folder), '--key', join(keys, 'factory.key')];
      expect((await run('bundle', 'create', ...args, ...imageArgs(), ...out)).exitCode).toBe(0);
    };
    const verify = () => run('bundle', 'verify', stick, '--keys', keys);
    await make('1-first', { 'version-scheme': 'semver' });
    await make('2-next', { version: '4.13.8', sequence: '38' });
    await make('3-other-stream', { name: 'apps' });
    expect(await verify()).toMatchObject({ exitCode: 0 });
    cpSync(join(stick, 'stickpin', '1-first'), join(stick, 'stickpin', '4-copy'), { recursive: true });
    expect(await verify()).toMatchObject({ exitCode: 0 });
    await make('5-same-sequence', { version: '4.13.9' });
    await make('6-same-version', { version: '4.13.8', sequence: '40' });
    await make('7-other-scheme', { version: 'v4.13.9', sequence: '41' });
    await make('8-apps-word', { name: 'apps', version: 'latest', sequence: '41', 'version-scheme': 'three-tag' });
    const { exitCode, stdout, stderr } = await verify();
    expect(exitCode).toBe(4);
    expect(stderr).toContain('4 of 8 bundles on');
    const lines = stdout.split('\n');
    const below = (folder: string) => {
      const at = lines.findIndex((line) => line.startsWith(`stickpin/${folder}: `));
      return [lines[at], lines[at + 1]?.startsWith('  ') ? lines[at + 1] : undefined];
    };
    expect(below('2-next')).toEqual([expect.stringContaining('ocp 4.13.8 for amd64, sequence 38: '), undefined]);
    expect(below('5-same-sequence')[1]).toMatch(/same sequence 37 as ocp 4\.13\.7/);
    expect(below('6-same-version')[1]).toContain('ocp@4.13.8 is in stickpin/2-next too');
    expect(below('7-other-scheme')[1]).toMatch(/v4\.13\.9/);
    expect(below('8-apps-word')[1]).toContain('latest comes after every version that begins with a digit');
  });

  it('create warns of a version that sets another scheme than its maker may think', async () => {
    const at = (version: string, ...more: readonly string[]) =>
      run(
        ...['bundle', 'create', '--name', 'ocp', '--version', version, '--arch', 'amd64', '--sequence', '37'],
        ...[...imageArgs(), '--key', join(keys, 'factory.key'), '--out', join(root, `of-${version}`), ...more],
      );
    for (const version of ['v1.2.3', 'latest', '4.13']) {
      const strict = await at(version, '--strict');
      expect(strict).toMatchObject(ended(1, `version ${version} is no SemVer`));
      const warned = await at(version);
      expect(warned.exitCode).toBe(0);
      expect(warned.stderr).toContain('it sets the version scheme of stream ocp to three-tag');
    }
    expect((await at('2', '--version-scheme', 'three-tag')).stderr).not.toContain('is no SemVer');
    for (const version of ['1.2.3', '1.2.3-rc.1', '1.2.3-rev1', '1.2.3+x']) {
      expect((await at(version)).stderr).not.toContain('is no SemVer');
    }
  });

  it('say what is wrong with an option, and leave nothing behind', async () => {
    for (const [args, field] of [
      [['--sequence', '0', ...imageArgs()], 'sequence'],
      [['--name', 'Not A Name', ...imageArgs()], 'name'],
      [['--expires', 'tomorrow', ...imageArgs()], 'expires'],
      [['--expires', '2020-01-01T00:00:00Z', ...imageArgs()], 'expires'],
      [['--from', 'not a range', ...imageArgs()], 'update.from'],
      [['--image', 'etcd:3.5'], 'registry'],
      [[], 'image'],
    ] as const) {
      const run = await create(...args);
      expect(run, args.join(' ')).toMatchObject(ended(2, field));
    }
    expect(readdirSync(root).sort()).toEqual(['keys.d', 'layout']);
  });

  it('make the same payload of the same images with SOURCE_DATE_EPOCH', async () => {
    const ids = [];
    for (const out of ['one', 'two']) {
      const args = ['--json', '--out', join(root, out), ...imageArgs(), '--key', join(keys, 'factory.key')];
      const env = { SOURCE_DATE_EPOCH: '1700000000' };
      const made = await runCommand(['bundle', 'create', ...NAMED, ...args], { env });
      const { payload, bundleId } = JSON.parse(made.stdout);
      expect(payload.created).toBe('2023-11-14T22:13:20Z');
      ids.push(bundleId);
    }
    expect(ids[0]).toBe(ids[1]);
    const envelopes = ['one', 'two'].map((out) => readFileSync(join(root, out, 'bundle.dsse.json'), 'utf8'));
    expect(envelopes[0]).toBe(envelopes[1]);
  });

  it('say what a path is that is not a bundle, once, and what to name instead', async () => {
    writeFileSync(join(root, 'ocp.tar'), '');
    writeFileSync(join(root, 'ocp.stickpin.tar'), gzipSync(randomBytes(2048)));
    for (const [path, why] of [
      ['nowhere', 'is not there'],
      ['ocp.tar', 'is not a directory; a bundle is a directory, or a file named *.stickpin.tar'],
      ['layout', 'holds no bundle.dsse.json'],
      ['ocp.stickpin.tar', 'compressed'],
    ] as const) {
      for (const command of ['inspect', 'verify', 'sign']) {
        const args = { verify: ['--keys', keys], sign: ['--key', join(keys, 'factory.key')] }[command] ?? [];
        const { exitCode, stderr } = await run('bundle', command, join(root, path), ...args);
        expect(exitCode).toBe(command === 'verify' && why === 'compressed' ? 4 : 1);
        expect(stderr).toContain(why);
        const line = stderr.split('\n').find((text) => text.startsWith('stickpin:')) ?? '';
        expect(line.split(join(root, path)).length, line).toBe(2);
      }
    }
  });

  it('take one key in place of a folder with --keys, and no other file', async () => {
    const factory = join(keys, 'factory.pub');
    await create(...imageArgs(), '--key', join(keys, 'factory.key'));
    const verified = await run('bundle', 'verify', bundle, '--keys', factory);
    expect(verified).toMatchObject({ exitCode: 0, stderr: '' });
    expect(verified.stdout).toContain('signature by factory ok');
    await run('keygen', '--out', join(root, 'other'));
    const refused = await run('bundle', 'verify', bundle, '--keys', join(root, 'other.pub'));
    expect(refused).toMatchObject({ exitCode: 4, stdout: '' });
    const several = await run('bundle', 'verify', bundle, '--keys', factory, '--threshold', '2');
    expect(several).toMatchObject(ended(1, `--keys: ${factory} is one key, and --threshold demands 2 keys`));
    for (const command of ['verify', 'rehearse', 'serve']) {
      const nowhere = await run('bundle', command, bundle, '--keys', join(root, 'nowhere'));
      expect(nowhere).toMatchObject({
        exitCode: 1,
        stdout: '',
        stderr: `stickpin: --keys: ${join(root, 'nowhere')} is not there: name a trusted *.pub file, or the folder with them\n`,
      });
      const secret = await run('bundle', command, bundle, '--keys', join(keys, 'factory.key'));
      expect(secret.exitCode).not.toBe(0);
      expect(secret.stderr).toContain('it holds a private key');
    }
  });

  it('let no control characters of a bundle reach the terminal', async () => {
    await create(...imageArgs());
    writeFileSync(join(bundle, 'bundle.dsse.json'), '\u001b[31mHI\u0007{');
    const { stderr } = await run('bundle', 'inspect', bundle);
    expect(stderr).toMatch(/^stickpin: \P{Cc}*: bundle\.dsse\.json is not JSON\P{Cc}*\n$/u);
    expect(stderr).toContain(`stickpin: ${bundle}: `);
  });
});

describe('text of a bundle', () => {
  it('has no format characters and separators, neither on the terminal nor in JSON', async () => {
    await create(...imageArgs(), '--barrier', 'first\u202e 4.12\u2028\u200bthen this');
    for (const json of [[], ['--json']]) {
      const { exitCode, stdout } = await run('bundle', 'inspect', bundle, ...json);
      expect(exitCode).toBe(0);
      expect(stdout).toContain('first 4.12 then this');
      expect(stdout).not.toMatch(/[\p{Cf}\p{Zl}\p{Zp}]/u);
    }
  });
});

describe('wrong usage', () => {
  it('gives one line that names the command with the help', async () => {
    for (const args of [['bogus'], ['keygen'], ['bundle', 'verify', 'x', '--bogus']]) {
      const { exitCode, stderr } = await run(...args);
      expect(exitCode).toBe(2);
      expect(stderr).toMatch(/^stickpin: [^\n]*; see 'stickpin[a-z ]* --help'\n$/);
    }
  });
});

describe('bundle envelope', () => {
  const envelope = (...args: string[]) => run('bundle', 'envelope', bundle, '--out', join(root, 'light'), ...args);

  it('copies everything except the layers, which verify then reports as absent', async () => {
    await create(...imageArgs(), '--key', join(keys, 'factory.key'));
    expect(await envelope()).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(
        /^the envelope of ocp 4\.13\.7 is in .*light: 9 files of .*, without 2 layers of .*, which nodes pull from quay\.example\.com\n$/,
      ),
    });
    expect(readdirSync(join(root, 'light')).sort()).toEqual([
      'blobs',
      'bundle.dsse.json',
      'contents.json',
      'index.json',
      'oci-layout',
    ]);
    const { contents } = JSON.parse((await run('bundle', 'inspect', join(root, 'light'), '--json')).stdout);
    const verified = await run('bundle', 'verify', join(root, 'light'), '--keys', keys, '--json');
    const layers = contents.layers.map(({ digest }: { digest: string }) => ({ digest, why: 'absent' }));
    expect(JSON.parse(verified.stdout).missing).toEqual(layers);
    expect((await run('bundle', 'envelope', join(root, 'light'), '--out', join(root, 'again'))).exitCode).toBe(0);
    expect(readdirSync(join(root, 'again/blobs/sha256'))).toEqual(readdirSync(join(root, 'light/blobs/sha256')));
  });

  it('leaves nothing behind when a document is damaged, and refuses to write a tar file', async () => {
    await create(...imageArgs());
    const { contents } = JSON.parse((await run('bundle', 'inspect', bundle, '--json')).stdout);
    const manifest = join(bundle, 'blobs/sha256', contents.images[0].digest.slice(7));
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('"', "'"));
    expect(await envelope()).toMatchObject(ended(1, 'is damaged: name'));
    expect(readdirSync(root).filter((name) => name.includes('light'))).toEqual([]);
    const tar = await run('bundle', 'envelope', bundle, '--out', join(root, 'x.stickpin.tar'));
    expect(tar).toMatchObject(ended(2, 'is one file: give a directory'));
  });
});
