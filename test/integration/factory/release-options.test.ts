import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { parsePublicKey } from '../../../src/bundle/keys/keys.ts';
import { sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { runCommand } from '../../support/run-command.ts';

const root = folderForEach();
let keys: string;
const run = (...args: string[]) => runCommand(args);
const at = (name: string) => join(root, name);

function create(out: string, ...more: string[]) {
  const named = ['--name', 'ocp', '--version', '4.13.8', '--arch', 'amd64', '--sequence', '8'];
  return run('bundle', 'create', ...named, '--out', at(out), '--key', join(keys, 'factory.key'), ...more);
}

function file(name: string, content: unknown): string {
  writeFileSync(at(name), typeof content === 'string' ? content : JSON.stringify(content));
  return at(name);
}

async function payloadOf(out: string) {
  return JSON.parse((await run('bundle', 'inspect', at(out), '--json')).stdout).payload;
}

beforeEach(async () => {
  keys = at('keys.d');
  mkdirSync(keys);
  await run('keygen', '--out', join(keys, 'factory'));
});

describe('a bundle without images', () => {
  const bad = { version: '4.13.5', deadend: true, reason: 'etcd may lose writes' };
  const step = { version: '4.13.0', barrier: true, reason: 'the storage format changes' };

  it.each(['bundle', 'b.stickpin.tar'])('carries advisories and keys, as %s', async (out) => {
    const next = sampleKey('factory-2027');
    const old = parsePublicKey(sampleKey('old').publicPem, 'old').keyId;
    const one = file('one.json', bad);
    const list = file('list.json', [step, { version: '4.12.9', reason: 'mended after all' }]);
    const pub = file('factory-2027.pub', `# comment\n${next.publicPem}`);
    const made = await create(out, '--advisory', one, '--advisory', list, '--trust-key', pub, '--revoke-key', old);
    expect(made).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await payloadOf(out)).toMatchObject({
      advisories: [bad, step, { version: '4.12.9', reason: 'mended after all' }],
      trust: { keys: [next.publicPem], names: { [next.privateKey.keyId]: 'factory-2027' }, revoked: [old] },
      totals: { images: 0, blobs: 0, sizeBytes: 0, diskBytes: 0, inodes: 0 },
    });
    for (const more of [[], ['--full']]) {
      const verified = await run('bundle', 'verify', at(out), '--keys', keys, ...more);
      expect(verified).toMatchObject({ exitCode: 0 });
      expect(verified.stdout).toContain('signature by factory ok, 0 of 0 blobs');
    }
    const { stdout } = await run('bundle', 'inspect', at(out));
    expect(stdout).toContain('  advisory    4.13.5 is a dead end: etcd may lose writes\n');
    expect(stdout).toContain('  advisory    4.13.0 is a barrier: the storage format changes\n');
    expect(stdout).toContain('  advisory    4.12.9: mended after all\n');
    expect(stdout).not.toContain('not enforced');
    expect(stdout).toContain(`  trust       ${next.privateKey.keyId} factory-2027\n  revoke      ${old}\n`);
    expect(stdout).not.toContain('COMPONENT');
  });

  it('names the role of the keys with --trust-role, which needs keys', async () => {
    const next = file('next.pub', sampleKey('next').publicPem);
    expect(await create('bundle', '--trust-key', next, '--trust-role', 'customer')).toMatchObject({ exitCode: 0 });
    expect((await payloadOf('bundle')).trust).toMatchObject({ role: 'customer' });
    const alone = await create('other', '--advisory', file('one.json', bad), '--trust-role', 'customer');
    expect(alone).toMatchObject(ended(2, '--trust-role needs --trust-key or --revoke-key'));
    expect((await create('other', '--trust-key', next, '--trust-role', '../x')).exitCode).not.toBe(0);
    expect(readdirSync(root).sort()).toEqual(['bundle', 'keys.d', 'next.pub', 'one.json']);
  });

  it('is inspected with its version scheme', async () => {
    await create('bundle', '--advisory', file('one.json', bad), '--version-scheme', 'semver');
    expect((await run('bundle', 'inspect', at('bundle'))).stdout).toContain('  scheme      semver\n');
  });

  it('is refused when it carries nothing else', async () => {
    const empty = await create('bundle');
    expect(empty).toMatchObject({ exitCode: 2 });
    expect(empty.stderr).toMatch(
      /^stickpin: no image is given: .*--release, --attach, --advisory, --trust-key or --revoke-key\n$/,
    );
  });

  it.each<[string, unknown, RegExp]>([
    ['no JSON', 'version: 4', /a\.json is not JSON/],
    ['no reason', { version: '4.13.5' }, /a\.json: reason: /],
    ['no version', [{ reason: 'x' }], /a\.json: 0\.version: /],
    ['a member that is not known', { ...bad, severity: 9 }, /a\.json: severity: /],
    ['a dead end that is a barrier', { ...bad, barrier: true }, /4\.13\.5 is both a dead end and a barrier/],
    ['a version twice', [bad, bad], /there is an advisory about 4\.13\.5 already/],
    ['its own version', { ...bad, version: '4.13.8' }, /4\.13\.8 is this release itself; say --deadend or --barrier/],
  ])('refuses an advisory file with %s', async (_, content, message) => {
    const refused = await create('bundle', '--advisory', file('a.json', content));
    expect(refused).toMatchObject({ exitCode: 2 });
    expect(refused.stderr).toMatch(message);
    expect(refused.stderr.trim().split('\n')).toHaveLength(1);
    expect(readdirSync(root).sort()).toEqual(['a.json', 'keys.d']);
  });

  it('refuses files that are not keys', async () => {
    expect((await create('bundle', '--advisory', at('none.json'))).stderr).toMatch(
      /^stickpin: advisory file .*none\.json can't be read: /,
    );
    expect((await create('bundle', '--trust-key', join(keys, 'factory.key'))).stderr).toContain('private key');
    const factory = join(keys, 'factory.pub');
    const { keyId } = parsePublicKey(readFileSync(factory, 'utf8'), factory);
    expect(await create('bundle', '--trust-key', factory, '--revoke-key', keyId)).toMatchObject(
      ended(2, `--trust-key ${factory} is the key that --revoke-key ${keyId} takes out of force`),
    );
    expect((await create('bundle', '--revoke-key', 'abc')).stderr).toContain('64 lower-case hex digits');
  });
});

describe('rules of a release', () => {
  const image = () => {
    writeOciLayout(at('layout'), [{ image: sampleImage({ seed: 'it', architecture: 'amd64' }) }]);
    return ['--image', `quay.example.com/a:1=oci:${at('layout')}`];
  };
  const advisory = () => ['--advisory', file('a.json', { version: '4.13.5', deadend: true, reason: 'x' })];

  it.each(['--barrier', '--deadend'])('give the reason of %s', async (option) => {
    const refused = await create('bundle', ...advisory(), option, ' ');
    expect(refused).toMatchObject(ended(2, `${option} has no reason`));
  });

  it('come from the options', async () => {
    const rules = [
      ...['--from', '>=4.12.0 <4.13.7', '--deadend', 'last of its kind'],
      ...['--end-of-life', '2030-01-01T00:00:00Z'],
    ];
    const rollout = ['--rollout-start', '2026-05-01T22:00:00+02:00', '--rollout-minutes', '90'];
    expect(await create('bundle', ...image(), ...rules, ...rollout)).toMatchObject({ exitCode: 0 });
    expect((await payloadOf('bundle')).update).toEqual({
      from: '>=4.12.0 <4.13.7',
      deadend: { reason: 'last of its kind' },
      rollout: { start: '2026-05-01T22:00:00+02:00', durationMinutes: 90 },
      endOfLife: '2030-01-01T00:00:00Z',
    });
    const { stdout } = await run('bundle', 'inspect', at('bundle'));
    expect(stdout).toContain('rollout     from 2026-05-01T22:00:00+02:00, over 90 minutes\n');
    expect(stdout).toContain('end of life 2030-01-01T00:00:00Z\n');
  });

  it('take a day in UTC for a time: its end, or its begin for a rollout', async () => {
    const days = ['--expires', '2027-01-01', '--end-of-life', '2028-02-29', '--rollout-start', '2026-05-01'];
    const made = await create('bundle', ...image(), ...days, '--rollout-minutes', '90');
    expect(made).toMatchObject({ exitCode: 0 });
    expect(await payloadOf('bundle')).toMatchObject({
      expires: '2027-01-01T23:59:59Z',
      update: { endOfLife: '2028-02-29T23:59:59Z', rollout: { start: '2026-05-01T00:00:00Z' } },
    });
  });

  it.each([
    [['--expires', '2027-02-29'], 'expires: must be a time such as'],
    [['--expires', '2026-03-03'], 'expires: 2026-03-03T23:59:59Z is not after created'],
    [['--rollout-minutes', '90'], '--rollout-minutes needs --rollout-start'],
    [['--rollout-start', '2026-05-01T22:00:00Z'], 'alone would hold the release on every node for good'],
    [['--rollout-start', '2026-05-01T22:00:00Z', '--rollout-fraction', '1.1'], 'a fraction from 0 to 1'],
    [['--rollout-start', 'tomorrow', '--rollout-minutes', '9'], 'update.rollout.start: must be a time such as'],
    [['--rollout-start', '2026-05-01T22:00:00Z', '--rollout-minutes', '0'], 'from 1 to 527040'],
    [['--rollout-start', '2026-05-01T22:00:00Z', '--rollout-minutes', '1.5'], 'from 1 to 527040'],
    [['--end-of-life', '2001-01-01T00:00:00Z'], 'endOfLife: 2001-01-01T00:00:00Z is not after created'],
    [['--expires', '2001-01-01T00:00:00Z'], 'expires: 2001-01-01T00:00:00Z is not after created'],
    [['--from', 'sometimes'], 'update.from: must be a range of versions'],
    [['--barrier', 'line\nbreak'], 'update.barrier.reason: must not hold control characters'],
  ])('are refused in one line where they are wrong: %j', async (options, message) => {
    const refused = await create('bundle', ...advisory(), ...options);
    expect(refused).toMatchObject({ exitCode: 2 });
    expect(refused.stderr).toContain(message);
    expect(refused.stderr.trim().split('\n')).toHaveLength(1);
  });

  it('are refused without images, each by its name', async () => {
    const rollout = ['--rollout-start', '2026-05-01T22:00:00Z', '--rollout-minutes', '9'];
    const rules = [
      ...['--manual', '--keep', 'life', '--from', '>=9.0.0', '--barrier', 'step', ...rollout],
      ...['--end-of-life', '2099-01-01T00:00:00Z'],
    ];
    const refused = await create('bundle', ...advisory(), ...rules);
    expect(refused).toMatchObject({ exitCode: 2 });
    expect(refused.stderr.replaceAll('\n', ' ')).toContain(
      'no image is given, so that --manual, --keep, --from, --barrier, --rollout-start, --end-of-life would have no effect',
    );
    expect(readdirSync(root).sort()).toEqual(['a.json', 'keys.d']);
    await create('base', ...image());
    const delta = await create('bundle', ...advisory(), '--base', at('base'));
    expect(delta.stderr).toContain('so that --base would have no effect');
  });

  it('make the same bytes again', async () => {
    const rollout = ['--rollout-start', '2026-05-01T22:00:00Z', '--rollout-fraction', '0.1'];
    const options = [...image(), ...advisory(), ...rollout, '--revoke-key', 'ab'.repeat(32)];
    for (const out of ['first.stickpin.tar', 'second.stickpin.tar']) await create(out, ...options);
    expect(readFileSync(at('second.stickpin.tar'))).toEqual(readFileSync(at('first.stickpin.tar')));
  });
});
