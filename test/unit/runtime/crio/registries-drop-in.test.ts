import fc from 'fast-check';
import { parse } from 'toml';
import { describe, expect, it } from 'vitest';
import type { ConfigFile } from '../../../../src/runtime/config/config-file.ts';
import {
  entryFor,
  locate,
  mergeRegistries,
  mirroredRepositories,
  parseRegistriesDropIn,
  renderRegistriesDropIn,
} from '../../../../src/runtime/crio/registries.ts';

const ADDRESS = { authority: '127.0.0.1:5577', token: '0123456789abcdef0123456789abcdef' };
const PATHS = {
  configPath: '/etc/containers/registries.conf',
  configDirectory: '/etc/containers/registries.conf.d',
  linkPath: '/etc/containers/registries.conf.d/99-stickpin.conf',
};

function file(text: string, path = PATHS.configPath): ConfigFile {
  return { kind: 'read', path, text };
}

function entriesOf(...files: ConfigFile[]) {
  return mergeRegistries(files, PATHS).entries;
}

const HEADER = `# Written by stickpin for the images of bundles, and emptied with them. Don't edit.
# Each repository is looked for in stickpin's own registry first; what was configured for it before is kept behind that.
`;

describe('renderRegistriesDropIn', () => {
  it('puts our registry before each repository (docs/runtime-facts.md, fact 12)', () => {
    expect(renderRegistriesDropIn(['quay.io/coreos/etcd', 'localhost:5000/app'], ADDRESS, [])).toBe(`${HEADER}
[[registry]]
prefix = "localhost:5000/app"
location = "localhost:5000/app"

[[registry.mirror]]
location = "127.0.0.1:5577/0123456789abcdef0123456789abcdef/localhost__5000/app"
insecure = true

[[registry]]
prefix = "quay.io/coreos/etcd"
location = "quay.io/coreos/etcd"

[[registry.mirror]]
location = "127.0.0.1:5577/0123456789abcdef0123456789abcdef/quay.io/coreos/etcd"
insecure = true
`);
  });

  it('is only its header without repositories', () => {
    expect(renderRegistriesDropIn([], ADDRESS, [])).toBe(HEADER);
  });

  it('adds the sources of the most specific entry of the user after it', () => {
    const configured = entriesOf(
      file(`
[[registry]]
prefix = "quay.io"
location = "elsewhere.example.com"

[[registry]]
prefix = "quay.io/coreos"
location = "mirror.example.com/core"
insecure = true
blocked = true
mirror-by-digest-only = true

[[registry.mirror]]
location = "m1.example.com/c"
insecure = true

[[registry.mirror]]
location = "m2.example.com"
`),
    );
    expect(renderRegistriesDropIn(['quay.io/coreos/etcd'], ADDRESS, configured)).toBe(`${HEADER}
# behind our mirror: as configured in "/etc/containers/registries.conf"
[[registry]]
prefix = "quay.io/coreos/etcd"
location = "mirror.example.com/core/etcd"
insecure = true
blocked = true

[[registry.mirror]]
location = "127.0.0.1:5577/0123456789abcdef0123456789abcdef/quay.io/coreos/etcd"
insecure = true

[[registry.mirror]]
location = "m1.example.com/c/etcd"
insecure = true
pull-from-mirror = "digest-only"

[[registry.mirror]]
location = "m2.example.com/etcd"
pull-from-mirror = "digest-only"
`);
  });
});

describe('renderRegistriesDropIn, with locations that give no valid name', () => {
  const render = (text: string) =>
    parse(renderRegistriesDropIn(['quay.io/a'], ADDRESS, entriesOf(file(`[[registry]]\n${text}`)))).registry;
  const ours = { location: `127.0.0.1:5577/${ADDRESS.token}/quay.io/a`, insecure: true };

  it.each([
    ['a bare host', 'prefix = "quay.io/a"\nlocation = "mirror.example.com"'],
    ['no name at all', 'prefix = "quay.io"\nlocation = "MIRROR EXAMPLE"'],
  ])('uses only our registry when the location is %s', (_what, text) => {
    expect(render(text)).toEqual([{ prefix: 'quay.io/a', location: 'quay.io/a', blocked: true, mirror: [ours] }]);
  });

  it('accepts a host in upper or lower case', () => {
    const text = 'prefix = "quay.io"\nlocation = "Mirror.example.com/q"';
    expect(render(text)).toEqual([{ prefix: 'quay.io/a', location: 'Mirror.example.com/q/a', mirror: [ours] }]);
  });

  it('leaves out a mirror that is a bare host, and keeps the others', () => {
    const text = ['mirror.example.com', 'b.example.com/a'].map((place) => `[[registry.mirror]]\nlocation = "${place}"`);
    expect(render(`prefix = "quay.io/a"\nlocation = "quay.io/a"\n${text.join('\n')}`)).toEqual([
      { prefix: 'quay.io/a', location: 'quay.io/a', mirror: [ours, { location: 'b.example.com/a' }] },
    ]);
  });
});

describe('parseRegistriesDropIn', () => {
  const path = fc.stringMatching(/^[a-z0-9]{1,8}(\/[a-z0-9]{1,8}){0,2}$/);
  const host = fc.stringMatching(/^[a-z0-9]{1,8}\.[a-z]{2,3}(:[0-9]{2,4})?$/);
  const repositories = fc.uniqueArray(fc.tuple(host, path).map(([registry, rest]) => `${registry}/${rest}`));

  it('reads back what was rendered', () => {
    fc.assert(
      fc.property(repositories, (list) => {
        expect(parseRegistriesDropIn(renderRegistriesDropIn(list, ADDRESS, []), ADDRESS)).toEqual([...list].sort());
      }),
    );
  });

  it('names a mirror to the registry of an earlier run by its location', () => {
    const old = renderRegistriesDropIn(['quay.io/a'], { ...ADDRESS, token: 'f'.repeat(32) }, []);
    expect(parseRegistriesDropIn(old, ADDRESS)).toEqual([`127.0.0.1:5577/${'f'.repeat(32)}/quay.io/a`]);
  });

  it('reports text that is not TOML', () => {
    expect(parseRegistriesDropIn('[[registry]\n', ADDRESS)).toBeUndefined();
  });

  it.each(['prefix = {}', 'prefix = {toString = 1}', 'prefix = "a"\nmirror = [{location = {}}]'])(
    'mirrors nothing with values of other types: %s',
    (values) => {
      expect(parseRegistriesDropIn(`[[registry]]\n${values}\n`, ADDRESS)).toEqual(['']);
      expect(mirroredRepositories(`[[registry]]\n${values}\n`)).toHaveLength(1);
    },
  );

  it('quotes every value of the configuration of the user', () => {
    const text = fc.string({ unit: 'binary', minLength: 1 });
    fc.assert(
      fc.property(text, text, (location, name) => {
        const entry = {
          file: `/etc/${name}`,
          prefix: 'quay.io',
          location,
          insecure: false,
          blocked: false,
          mirrorByDigestOnly: false,
          mirrors: [],
        };
        const [registry] = parse(renderRegistriesDropIn(['quay.io/a'], ADDRESS, [entry])).registry;
        expect(registry.location).toBe(registry.blocked === true ? 'quay.io/a' : `${location}/a`);
      }),
    );
  });
});

describe('the registries configuration of others', () => {
  it('lets a later file replace an entry whole', () => {
    const entries = entriesOf(
      file('[[registry]]\nlocation = "quay.io"\ninsecure = true\n[[registry.mirror]]\nlocation = "m"\n'),
      file('[[registry]]\nprefix = "quay.io"\nlocation = "other"\n', `${PATHS.configDirectory}/10-a.conf`),
    );
    expect(entries).toEqual([
      expect.objectContaining({ prefix: 'quay.io', location: 'other', insecure: false, mirrors: [] }),
    ]);
  });

  it('names entries in later files, and files that are not TOML', () => {
    const behind = file('[[registry]]\nlocation = "quay.io/a"\n', `${PATHS.configDirectory}/99-z.conf`);
    const broken = file('[[registry\n', `${PATHS.configDirectory}/10-a.conf`);
    const config = mergeRegistries([broken, behind], PATHS);
    expect(config.behindOurs.map(({ prefix }) => prefix)).toEqual(['quay.io/a']);
    expect(config.faults).toEqual([{ file: broken.path, reason: 'line 1 ends too early' }]);
  });

  it.each([
    ['quay.io/coreos/etcd', 'quay.io/coreos'],
    ['quay.io/coreosx/etcd', 'quay.io'],
    ['a.example.com/x', '*.example.com'],
    ['a.b.example.com:5000/x', '*.example.com'],
    ['example.com/x', undefined],
    ['evil.com/a.example.com/x', undefined],
    ['docker.io/library/x', undefined],
  ])('%s is under %s', (repository, prefix) => {
    const entries = entriesOf(
      file(
        ['quay.io/coreos', 'quay.io', '*.example.com']
          .map((each) => `[[registry]]\nprefix = "${each}"\nlocation = "x"\n`)
          .join(''),
      ),
    );
    expect(entryFor(repository, entries)?.prefix).toBe(prefix);
  });

  it('computes names at another location', () => {
    expect(locate('quay.io/coreos/etcd', 'quay.io/coreos', 'm.example.com/c')).toBe('m.example.com/c/etcd');
    expect(locate('a.example.com/x', '*.example.com', 'm.example.org')).toBe('m.example.org/x');
    expect(locate('a.example.com/x', '*.example.com', '')).toBe('a.example.com/x');
  });
});
