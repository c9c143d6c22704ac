import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { loadTrustedKeys } from '../../../../../src/bundle/keys/trust.ts';
import { otherForm } from '../../../../support/bundles/key-forms.ts';
import { installFile, installRole, type RoleFileOptions, roleText } from '../../../../support/bundles/role-file.ts';
import { installKeys, sampleKey } from '../../../../support/bundles/sample-bundle.ts';
import { temporaryFolder } from '../../../../support/files/temporary-folder.ts';

let folder: string;
/** Not a folder of keys. */
let elsewhere: string;
beforeEach(() => {
  folder = temporaryFolder();
  elsewhere = temporaryFolder();
  installKeys(folder, [plain]);
});

const plain = sampleKey('factory');
const customer = sampleKey('customer');
const load = () => loadTrustedKeys(folder, new AbortController().signal, { ownUid: process.getuid?.() ?? 0 });
const role = (options: RoleFileOptions = {}) => installRole(folder, 'customer', { keys: [customer], ...options });

describe('a file of a role', () => {
  it('names keys by files and in PEM, and what they may sign', async () => {
    installFile(folder, 'team.pem', sampleKey('team').publicPem);
    role({ threshold: 2, mayRotate: true, keys: ['team.pem', customer] });
    const { roles, keys, problems } = await load();
    expect(problems).toEqual([]);
    expect(keys.map(({ name }) => name)).toEqual(['factory']);
    expect(roles).toMatchObject([
      {
        name: 'customer',
        threshold: 2,
        streams: ['customer-*'],
        repositories: ['registry.example.com/cust'],
        mayRotate: true,
      },
    ]);
    const names = roles[0]?.keys.map((key) => [key.name, key.role]);
    expect(names).toEqual(
      [
        ['customer/team', 'customer'],
        [`customer/${customer.privateKey.keyId.slice(0, 12)}`, 'customer'],
      ].sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
    );
  });

  it('may neither rotate keys nor keep releases for life unless it says so, and has any share', async () => {
    installFile(folder, 'customer.toml', roleText({ keys: [customer] }).replace(/may_rotate.*\n/, ''));
    const [sparse] = (await load()).roles;
    expect(sparse).toMatchObject({ mayRotate: false, mayKeepForLife: false });
    expect(sparse?.maxBytes).toBeUndefined();
    role({ mayKeepForLife: true, maxBytes: 20 });
    expect((await load()).roles).toMatchObject([{ mayKeepForLife: true, maxBytes: 20 }]);
  });

  const text = (change: (text: string) => string) => () =>
    installFile(folder, 'customer.toml', change(roleText({ keys: [customer] })));
  const bad: readonly (readonly [string, () => unknown, RegExp])[] = [
    ['an unknown field', text((file) => `${file}stream = ["a"]\n`), /stream is not a key of a role file/],
    ['a misspelt limit', text((file) => file.replace('repositories', 'repository')), /customer\.toml: .*repositor/],
    ['no threshold', text((file) => file.replace(/threshold.*\n/, '')), /threshold is missing/],
    ['no streams', text((file) => file.replace(/streams.*\n/, '')), /streams is missing/],
    ['no repositories', text((file) => file.replace(/repositories.*\n/, '')), /repositories is missing/],
    ['no keys', text((file) => file.replace(/keys = [\s\S]*/, '')), /keys is missing/],
    ['a threshold of 0', () => role({ threshold: 0 }), /threshold must be at least 1/],
    ['a threshold that is not a whole number', () => role({ threshold: 1.5 }), /threshold must be a whole number/],
    ['a threshold as text', text((file) => file.replace('= 1', '= "1"')), /threshold must be/],
    ['no stream', () => role({ streams: [] }), /streams must name at least one/],
    ['a stream with a slash', () => role({ streams: ['a/b'] }), /streams\.0 must be the name of a stream/],
    ['a stream with a class', () => role({ streams: ['[a-z]'] }), /streams\.0 must be/],
    ['an empty stream', () => role({ streams: [''] }), /streams\.0 must be/],
    ['65 streams', () => role({ streams: Array.from({ length: 65 }, (_, at) => `s${at}`) }), /at most 64 entries/],
    ['65 repositories', () => role({ repositories: Array(65).fill('r.example.com') }), /at most 64 entries/],
    ...[
      'registry.example.com/cust/',
      'registry.example.com/cust:1',
      `registry.example.com/cust@sha256:${'0'.repeat(64)}`,
      'Registry.example.com/cust',
      'registry.example.com/Cust',
      'registry.example.com/cust/*',
      'registry.example.com//cust',
      'registry.example.com/../cust',
      'cust/app',
      'index.docker.io/cust',
      '',
      '/',
      ' registry.example.com',
    ].map(
      (repository) =>
        [
          `the repository ${JSON.stringify(repository)}`,
          () => role({ repositories: [repository] }),
          /repositories\.0 must be a registry/,
        ] as const,
    ),
    [
      'may_keep_for_life as text',
      text((file) => `${file}may_keep_for_life = "no"\n`),
      /may_keep_for_life must be true or false/,
    ],
    ['a share of no bytes', () => role({ maxBytes: 0 }), /max_bytes must be at least 1/],
    ['a share of half a byte', () => role({ maxBytes: 1.5 }), /max_bytes must be a whole number of bytes/],
    ['a share as text', text((file) => `${file}max_bytes = "20 GiB"\n`), /max_bytes must be a number of bytes/],
    ['may_rotate as text', text((file) => file.replace('= false', '= "no"')), /may_rotate must be true or false/],
    ['no key', () => role({ keys: [] }), /keys must name at least one/],
    [
      'a key file that is not there',
      () => role({ keys: ['gone.pem'] }),
      /gone\.pem can't be read: no such file or directory \(ENOENT/,
    ],
    ['a *.pub as key file', () => role({ keys: ['factory.pub'] }), /keys\.0 must be the name of a file/],
    ['a path as key file', () => role({ keys: ['../customer.pem'] }), /keys\.0 must be the name of a file/],
    ['an absolute path as key file', () => role({ keys: ['/etc/passwd'] }), /keys\.0 must be/],
    ['a hidden key file', () => role({ keys: ['.customer.pem'] }), /keys\.0 must be/],
    ['itself as key file', () => role({ keys: ['customer.toml'] }), /keys\.0 must be/],
    [
      'a key file that holds no key',
      () => {
        installFile(folder, 'x.pem', 'nonsense');
        role({ keys: ['x.pem'] });
      },
      /not a public key in PEM/,
    ],
    ['a private key', text((file) => file.replace(/"""[\s\S]*"""/, `"""${customer.privatePem}"""`)), /PRIVATE KEY/],
    ['PEM that is cut short', text((file) => file.replace('-----END PUBLIC KEY-----', '')), /PEM can't be read/],
    [
      'a key twice, in two forms',
      () => {
        const other = sampleKey('other', 'ecdsa-p256');
        installFile(folder, 'other.pem', otherForm(other.publicPem, 'compressed'));
        role({ keys: [other, 'other.pem'] });
      },
      /names key [0-9a-f]{12}… twice/,
    ],
    ['no TOML', () => installFile(folder, 'customer.toml', 'threshold ='), /is not TOML/],
    ['an empty file', () => installFile(folder, 'customer.toml', ''), /is missing/],
    ['more than 64 KiB', () => installFile(folder, 'customer.toml', `#${' '.repeat(70_000)}`), /at most 65536 bytes/],
    ['a directory', () => mkdirSync(join(folder, 'customer.toml')), /is not a file/],
    [
      'a symbolic link',
      () => {
        symlinkSync(installRole(elsewhere, 'customer', { keys: [customer] }), join(folder, 'customer.toml'));
      },
      /is a symbolic link/,
    ],
    [
      'a key file that is a symbolic link',
      () => {
        symlinkSync(installFile(elsewhere, 'customer.pem', customer.publicPem), join(folder, 'customer.pem'));
        role({ keys: ['customer.pem'] });
      },
      /is a symbolic link/,
    ],
    ['a file that everybody may write', () => chmodSync(role(), 0o646), /can be written by everybody/],
    [
      'a key file that its group may write',
      () => {
        chmodSync(installFile(folder, 'customer.pem', customer.publicPem), 0o664);
        role({ keys: ['customer.pem'] });
      },
      /customer\.pem can be written by its group/,
    ],
  ];

  it.each(bad)('with %s is none, and says so', async (_name, make, why) => {
    make();
    const { roles, keys, problems, revocationsUnreadable } = await load();
    expect(roles).toEqual([]);
    expect(keys.map(({ name }) => name)).toEqual(['factory']);
    expect(revocationsUnreadable).toBe(false);
    const own = problems.filter(({ file }) => file === 'customer.toml');
    expect(own).toHaveLength(1);
    expect(own[0]?.message).toMatch(why);
    expect(own[0]?.message).toContain('nothing is trusted by');
  });

  it('is none under a name that no payload can name', async () => {
    for (const name of ['Customer', 'a.b', '-a', 'a'.repeat(64)]) installRole(folder, name, { keys: [customer] });
    const { roles, problems } = await load();
    expect(roles).toEqual([]);
    expect(new Set(problems.map(({ file }) => file)).size).toBe(4);
  });

  it('leaves a key out everywhere that stands in a *.pub too, in whatever form', async () => {
    const shared = sampleKey('shared', 'ecdsa-p256');
    writeFileSync(join(folder, 'shared.pub'), otherForm(shared.publicPem, 'compressed'), { mode: 0o644 });
    role({ keys: [customer, shared] });
    const { roles, keys, problems } = await load();
    expect(roles).toEqual([]);
    expect(keys.map(({ name }) => name)).toEqual(['factory']);
    expect(problems.map(({ message }) => message).join()).toMatch(/is in customer\.toml and shared\.pub/);
  });

  it('shares no key with another role: neither is one then', async () => {
    role();
    installRole(folder, 'other', { keys: [customer] });
    installRole(folder, 'third', { keys: [sampleKey('third')] });
    const { roles, problems } = await load();
    expect(roles.map(({ name }) => name)).toEqual(['third']);
    expect(problems.map(({ file }) => file).sort()).toEqual(['customer.toml', 'other.toml']);
  });

  it('loses a key that a *.revoked file names', async () => {
    role({ keys: [customer, sampleKey('second')] });
    writeFileSync(join(folder, 'x.revoked'), `${customer.privateKey.keyId}\n`, { mode: 0o644 });
    const { roles } = await load();
    expect(roles[0]?.keys).toHaveLength(1);
    expect(roles[0]?.revokedIds).toEqual([customer.privateKey.keyId]);
  });

  it('names key files that are not strays; others are', async () => {
    installFile(folder, 'customer.pem', customer.publicPem);
    installFile(folder, 'stray.pem', sampleKey('stray').publicPem);
    role({ keys: ['customer.pem'] });
    expect((await load()).problems.map(({ file }) => file)).toEqual(['stray.pem']);
  });

  it('changes the revision with all that it says', async () => {
    const revisions = new Set<string>();
    for (const options of [
      {},
      { threshold: 2 },
      { streams: ['a'] },
      { repositories: ['r.example.com'] },
      { mayRotate: true },
      { keys: [sampleKey('other')] },
    ]) {
      role(options);
      revisions.add((await load()).revision);
    }
    expect(revisions.size).toBe(6);
  });
});

describe('a key that is in a role with a fault too', () => {
  const faults: readonly (readonly [string, () => unknown])[] = [
    ['that is not TOML', () => installFile(folder, 'other.toml', `${roleText({ keys: [customer] })}\n= nothing`)],
    ['with an unknown member', () => installFile(folder, 'other.toml', `${roleText({ keys: [customer] })}\nx = 1`)],
    [
      'that names its key by a file',
      () => {
        installFile(folder, 'cust.pem', customer.publicPem);
        installFile(folder, 'other.toml', `${roleText({ keys: ['cust.pem'] })}\nx = 1`);
      },
    ],
    [
      'that holds a private key',
      () => installFile(folder, 'other.toml', `${roleText({ keys: [customer] })}\n# -----BEGIN PRIVATE KEY-----`),
    ],
    [
      'that has its key in one line',
      () => installFile(folder, 'other.toml', `keys = [${JSON.stringify(customer.publicPem)}]`),
    ],
    [
      'that names another key that is bad',
      () => installFile(folder, 'other.toml', roleText({ keys: ['absent.pem', customer] })),
    ],
  ];

  it.each(faults)('counts in no role, beside one %s', async (_what, install) => {
    role();
    install();
    const { roles, problems } = await load();
    expect(roles).toEqual([]);
    expect(problems.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/is in customer\.toml and other\.toml, and does not count in any of them/),
    );
  });

  it.each(faults)('counts not as a plain key, beside one %s', async (_what, install) => {
    installKeys(folder, [customer]);
    install();
    const { keys, problems } = await load();
    expect(keys.map(({ name }) => name)).toEqual(['factory']);
    expect(problems.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/is in other\.toml and customer\.pub, and does not count in any of them/),
    );
  });
});
