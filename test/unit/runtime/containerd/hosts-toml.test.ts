import fc from 'fast-check';
import { parse } from 'toml';
import { describe, expect, it } from 'vitest';
import { parseHostsToml, renderHostsToml, withAbsolutePaths } from '../../../../src/runtime/containerd/hosts-toml.ts';

const ADDRESS = { authority: '127.0.0.1:5577', token: '0123456789abcdef0123456789abcdef' };
const BASE = 'http://127.0.0.1:5577/v2/0123456789abcdef0123456789abcdef';
const HEADER = `# Written by stickpin for the images of bundles, and taken away with them. Don't edit.
# A file that was here before is put back then; until then its content stands behind our mirror, and itself beside this one.
`;

describe('renderHostsToml', () => {
  it('makes our registry the first host (docs/runtime-facts.md, fact 21)', () => {
    const content = { registry: 'quay.io', repositories: ['quay.io/coreos/etcd', 'quay.io/a'], madeDirectory: true };
    expect(
      renderHostsToml(content, ADDRESS),
    ).toBe(`${HEADER}# stickpin: {"registry":"quay.io","repositories":["quay.io/a","quay.io/coreos/etcd"],"madeDirectory":true}

[host."${BASE}/quay.io"]
capabilities = ["pull", "resolve"]
override_path = true
`);
  });

  it('keeps what the user configured behind it, in order', () => {
    const configured = parse(`
server = "https://registry.example.com"
ca = ["/etc/ssl/a.pem"]
client = [["/etc/ssl/c.cert", "/etc/ssl/c.key"]]
skip_verify = false

[header]
x-root = "r"

[host."https://z.example.com"]
capabilities = ["pull"]
[host."https://z.example.com".header]
x-custom = ["1", "2"]

[host."https://a.example.com"]
`);
    const content = { registry: 'quay.io', repositories: [], madeDirectory: false };
    expect(
      renderHostsToml(content, ADDRESS, configured),
    ).toBe(`${HEADER}# stickpin: {"registry":"quay.io","repositories":[],"madeDirectory":false}

server = "https://registry.example.com"
ca = ["/etc/ssl/a.pem"]
client = [["/etc/ssl/c.cert", "/etc/ssl/c.key"]]
skip_verify = false

[host."${BASE}/quay.io"]
capabilities = ["pull", "resolve"]
override_path = true

[host."https://z.example.com"]
capabilities = ["pull"]

[host."https://z.example.com".header]
x-custom = ["1", "2"]

[host."https://a.example.com"]

[header]
x-root = "r"
`);
  });

  it('is TOML with the same meaning, for any user table', () => {
    const text = fc.string({ unit: 'binary' });
    const scalar = fc.oneof(text, fc.boolean(), fc.integer(), fc.array(text));
    const host = fc.dictionary(text, scalar).filter((table) => !('' in table));
    const hosts = fc.dictionary(fc.webUrl(), host);
    fc.assert(
      fc.property(hosts, text, (table, server) => {
        const content = { registry: 'localhost:5000', repositories: ['localhost:5000/a'], madeDirectory: false };
        const parsed = parse(renderHostsToml(content, ADDRESS, { server, host: table }));
        const first = `${BASE}/localhost__5000`;
        expect(Object.keys(parsed.host)).toEqual([first, ...Object.keys(table)]);
        const { [first]: ours, ...others } = parsed.host;
        expect(JSON.parse(JSON.stringify({ ours, others, server: parsed.server }))).toEqual({
          ours: { capabilities: ['pull', 'resolve'], override_path: true },
          others: JSON.parse(JSON.stringify(table)),
          server,
        });
      }),
      { numRuns: 40 },
    );
  });
});

describe('parseHostsToml', () => {
  const content = { registry: 'localhost:5000', repositories: ['localhost:5000/a'], madeDirectory: true };

  it('reads back what was rendered', () => {
    expect(parseHostsToml(renderHostsToml(content, ADDRESS), ADDRESS)).toEqual({ ...content, current: true });
  });

  it('recognises a mirror of an earlier run', () => {
    const other = { ...ADDRESS, authority: '127.0.0.1:1' };
    expect(parseHostsToml(renderHostsToml(content, other), ADDRESS)?.current).toBe(false);
  });

  it.each([['', 'server = "https://quay.io"\n', '# Written by hand\n']])(
    'counts everything else as the user’s own',
    (text) => {
      expect(parseHostsToml(text, ADDRESS)).toBeUndefined();
    },
  );
});

describe('withAbsolutePaths', () => {
  it('makes paths of certificates absolute, in the root and in hosts', () => {
    const table = {
      ca: 'a.pem',
      client: [['c.cert', '/k.key']],
      host: { 'https://x': { ca: ['b.pem'] } },
      server: 'ca',
    };
    expect(withAbsolutePaths(table, '/etc/d')).toEqual({
      ca: '/etc/d/a.pem',
      client: [['/etc/d/c.cert', '/k.key']],
      host: { 'https://x': { ca: ['/etc/d/b.pem'] } },
      server: 'ca',
    });
  });
});
