import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mergeRegistries, readRegistriesConfig, renderRegistriesDropIn } from '../../../src/runtime/crio/registries.ts';
import { have } from '../../support/requirements.ts';
import { skopeoArgv, trixieRoot } from '../../support/rootfs/trixie-root.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const NOTHING_THERE = JSON.stringify({ errors: [{ code: 'MANIFEST_UNKNOWN', message: 'not here' }] });
const run = promisify(execFile);

/**
 * A host that has no image at all and writes down who asked it for which manifest, or came with
 * TLS.
 */
async function startEmptyHost(seen: string[]): Promise<{ server: Server; host: string }> {
  const server = createServer((request, response) => {
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    if (request.url !== '/v2/') seen.push(`${host}${request.url}`);
    response.statusCode = request.url === '/v2/' ? 200 : 404;
    response.end(request.url === '/v2/' ? '{}' : NOTHING_THERE);
  });
  server.on('clientError', (_error, socket) => {
    seen.push(`tls 127.0.0.1:${(server.address() as AddressInfo).port}`);
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, host: `127.0.0.1:${(server.address() as AddressInfo).port}` };
}

interface UserEntry {
  readonly prefix: string;
  readonly location: string | undefined;
  readonly insecure: boolean;
  readonly blocked: boolean;
  readonly digestOnly: boolean;
  readonly mirrors: readonly {
    readonly location: string;
    readonly insecure: boolean;
    readonly pullFrom: string | undefined;
  }[];
}

/**
 * TOML of what a user may have configured. `pull-from-mirror` beside `mirror-by-digest-only` is
 * refused by the library, so it is left out.
 */
function tomlOf(entries: readonly UserEntry[]): string {
  return entries
    .flatMap((entry) => [
      '[[registry]]',
      `prefix = "${entry.prefix}"`,
      ...(entry.location === undefined ? [] : [`location = "${entry.location}"`]),
      `insecure = ${entry.insecure}`,
      `blocked = ${entry.blocked}`,
      `mirror-by-digest-only = ${entry.digestOnly}`,
      ...entry.mirrors.flatMap((mirror) => [
        '[[registry.mirror]]',
        `location = "${mirror.location}"`,
        `insecure = ${mirror.insecure}`,
        ...(mirror.pullFrom === undefined || entry.digestOnly ? [] : [`pull-from-mirror = "${mirror.pullFrom}"`]),
      ]),
    ])
    .join('\n');
}

describe.runIf(have('root', 'mmdebstrap'))('our registries drop-in, read by skopeo', () => {
  const seen: string[] = [];
  const servers: Server[] = [];
  const hosts: string[] = [];
  let ours = '';
  let home = '';
  let directory = '';

  beforeAll(async () => {
    await trixieRoot();
    home = mkdtempSync(join(tmpdir(), 'stickpin-registries-'));
    directory = join(home, '.config/containers');
    mkdirSync(join(directory, 'registries.conf.d'), { recursive: true });
    for (let count = 0; count < 4; count += 1) {
      const { server, host } = await startEmptyHost(seen);
      servers.push(server);
      hosts.push(host);
    }
    const mirror = await startEmptyHost(seen);
    servers.push(mirror.server);
    ours = mirror.host;
  });
  afterAll(() => {
    for (const server of servers) server.close();
    rmSync(home, { recursive: true, force: true });
  });

  /**
   * Everything that skopeo asks for a manifest while it looks for an image that is nowhere, in
   * order.
   */
  async function asked(reference: string): Promise<{ asked: string[]; error: string }> {
    seen.length = 0;
    const [program = '', ...words] = skopeoArgv();
    const failure = await run(program, [...words, 'inspect', '--raw', `docker://${reference}`], {
      env: { ...process.env, HOME: home },
    }).then(
      () => '',
      (error: { stderr: string }) => error.stderr,
    );
    return { asked: [...seen], error: failure };
  }

  it('does not affect repositories below a mirrored one', async () => {
    const [origin = '', place = ''] = hosts;
    const dropIns = join(directory, 'registries.conf.d');
    const paths = {
      configPath: join(directory, 'registries.conf'),
      configDirectory: dropIns,
      linkPath: join(dropIns, '99-stickpin.conf'),
    };
    writeFileSync(
      paths.configPath,
      `[[registry]]\nprefix = "${origin}/team"\nlocation = "${place}/moved"\ninsecure = true\n`,
    );
    writeFileSync(join(dropIns, '50-user.conf'), '');
    const config = mergeRegistries(await readRegistriesConfig(paths, AbortSignal.timeout(10_000)), paths);
    const address = { authority: ours, token: TOKEN };
    const ending = `@sha256:${'a'.repeat(64)}`;
    rmSync(paths.linkPath, { force: true });
    const before = await asked(`${origin}/team/app/below${ending}`);
    writeFileSync(paths.linkPath, renderRegistriesDropIn([`${origin}/team/app`], address, config.entries));
    const after = await asked(`${origin}/team/app/below${ending}`);
    const path = `${origin.replace(':', '__')}/team/app/below/manifests/${ending.slice(1)}`;
    // containers/image chooses the entry by the name without tag and digest, so it asks our
    // registry, which has nothing of that name.
    expect(after.asked).toEqual([`tls ${ours}`, `${ours}/v2/${TOKEN}/${path}`, ...before.asked]);
    expect(before.asked.at(-1)).toBe(`${place}/v2/moved/app/below/manifests/${ending.slice(1)}`);
  });

  /** Writes these files, and what they are to us. */
  async function configured(main: string, dropIn: string) {
    const dropIns = join(directory, 'registries.conf.d');
    const paths = {
      configPath: join(directory, 'registries.conf'),
      configDirectory: dropIns,
      linkPath: join(dropIns, '99-stickpin.conf'),
    };
    writeFileSync(paths.configPath, main);
    writeFileSync(join(dropIns, '50-user.conf'), dropIn);
    rmSync(paths.linkPath, { force: true });
    return { paths, config: mergeRegistries(await readRegistriesConfig(paths, AbortSignal.timeout(10_000)), paths) };
  }

  const registry = (...lines: readonly string[]) => `[[registry]]\nlocation = "a.example.com"\n${lines.join('\n')}\n`;
  const mirrorOf = (...lines: readonly string[]) => registry('[[registry.mirror]]', ...lines);
  it.each<[string, string, string]>([
    ['nothing', '', ''],
    ['a mirror with https://', mirrorOf('location = "https://m.example.com"'), ''],
    ['a mirror with http:// in a drop-in', '', mirrorOf('location = "http://m.example.com"')],
    ['a location with https://', '[[registry]]\nprefix = "a.example.com"\nlocation = "https://b.example.com"\n', ''],
    ['a prefix with https://', registry('prefix = "https://a.example.com"'), ''],
    ['another scheme', registry('prefix = "HTTPS://a.example.com"'), ''],
    ['no location', '[[registry]]\nprefix = "a.example.com"\n', ''],
    ['no location for a wildcard', '[[registry]]\nprefix = "*.example.com"\n', ''],
    ['a mirror without location', mirrorOf('insecure = true'), ''],
    ['an unknown pull-from-mirror', mirrorOf('location = "m.example.com"', 'pull-from-mirror = "never"'), ''],
    [
      'two limits of a mirror',
      registry('mirror-by-digest-only = true', '[[registry.mirror]]', 'location = "m"', 'pull-from-mirror = "all"'),
      '',
    ],
    ['version 1', '[registries.insecure]\nregistries = ["a.example.com/"]\n', ''],
    ['version 1 with https://', '[registries.block]\nregistries = ["https://a.example.com"]\n', ''],
    ['version 1 with a search by https://', '[registries.search]\nregistries = ["https://a.example.com"]\n', ''],
    ['a search by https://', 'unqualified-search-registries = ["https://a.example.com"]\n', ''],
    ['version 1 in a drop-in', '', '[registries.insecure]\nregistries = ["a.example.com"]\n'],
    ['empty version 1 in a drop-in', '', '[registries.insecure]\nregistries = []\n'],
    ['both versions', `[registries.insecure]\nregistries = ["b.example.com"]\n${registry()}`, ''],
    [
      'a search list of version 2 with version 1',
      'unqualified-search-registries = ["a"]\n[registries.block]\nregistries = ["b"]\n',
      '',
    ],
    ['empty version 1 with version 2', `[registries.search]\nregistries = []\n${registry()}`, ''],
    ['a text for a list of searches', 'unqualified-search-registries = "docker.io"\n', ''],
    ['a number in a list of searches', 'unqualified-search-registries = ["a.io", 1]\n', ''],
    ['a search with a path', 'unqualified-search-registries = ["docker.io/library"]\n', ''],
    ['an empty search in a drop-in', '', 'unqualified-search-registries = [""]\n'],
    ['searches that are hosts', 'unqualified-search-registries = ["a.io:80", "localhost", "Foo.io/"]\n', ''],
    ['a search with a blank', 'unqualified-search-registries = ["foo io"]\n', ''],
    ['the same search twice', 'unqualified-search-registries = ["a.io", "a.io"]\n', ''],
    ['the same entry twice', registry() + registry(), ''],
    ['two entries that differ in insecure', registry() + registry('insecure = true'), ''],
    ['two entries that differ in blocked, in a drop-in', '', registry('blocked = true') + registry('blocked = false')],
    ['two prefixes of one location that differ', registry('prefix = "x.io"', 'insecure = true') + registry(), ''],
    ['two prefixes of one location that agree', registry('prefix = "x.io"') + registry('prefix = "y.io"'), ''],
    [
      'the same prefix with two locations',
      `${registry('prefix = "x.io"')}[[registry]]\nprefix = "x.io"\nlocation = "b"\n`,
      '',
    ],
    ['entries that differ in two files', registry('insecure = true'), registry('prefix = "x.io"')],
    ['a text for insecure', registry('insecure = "true"'), ''],
    ['a number for blocked', registry('blocked = 1'), ''],
    ['a number for a location', '[[registry]]\nlocation = 5\n', ''],
    ['a list for a prefix', registry('prefix = ["a"]'), ''],
    ['one table for the entries', '[registry]\nlocation = "a.io"\n', ''],
    ['one table for the mirrors', registry('[registry.mirror]', 'location = "b.io"'), ''],
    ['texts for the mirrors', registry('mirror = ["b.io"]'), ''],
    ['a text for insecure of a mirror', mirrorOf('location = "b.io"', 'insecure = "no"'), ''],
    ['a number for pull-from-mirror', mirrorOf('location = "b.io"', 'pull-from-mirror = 1'), ''],
    ['an empty pull-from-mirror', mirrorOf('location = "b.io"', 'pull-from-mirror = ""'), ''],
    ['an empty entry', '[[registry]]\n', ''],
    ['a wildcard with a path', registry('prefix = "*.a.io/foo"'), ''],
    ['a wildcard with a port', registry('prefix = "*.a.io:80"'), ''],
    [
      'wildcards that are taken as they are',
      `${registry('prefix = "*.*.io"')}[[registry]]\nprefix = "a.*.io"\nlocation = "b"\n`,
      '',
    ],
    ['keys in upper case', 'Unqualified-Search-Registries = "x"\n', ''],
    ['a location in upper case', '[[Registry]]\nLOCATION = "http://a.io"\n', ''],
    ['an unknown mode of short names', 'short-name-mode = "Enforcing"\n', ''],
    ['a known mode of short names', 'short-name-mode = "enforcing"\n', ''],
    ['a text for credential helpers', 'credential-helpers = "x"\n', ''],
    ['a number for the helper of layer stores', 'additional-layer-store-auth-helper = 1\n', ''],
    ['aliases', '[aliases]\n"a/b" = "A.io:80/b"\n"c" = ""\n"d" = "localhost/d"\n', ''],
    ['an alias without a registry', '[aliases]\n"a" = "docker/b"\n', ''],
    ['an alias with a tag, in a drop-in', '', '[aliases]\n"a" = "docker.io/b:tag"\n'],
    ['an alias in upper case', '[aliases]\n"a" = "docker.io/B"\n', ''],
    ['a number for an alias', '[aliases]\n"a" = 1\n', ''],
    ['an alias whose name has a registry', '[aliases]\n"a.io/b" = "docker.io/b"\n', ''],
    ['an alias whose name is in upper case', '[aliases]\n"A" = "docker.io/b"\n', ''],
    ['an alias whose name has a tag', '[aliases]\n"a:x" = "docker.io/b"\n', ''],
    ['version 1 with a text for a list', '[registries.search]\nregistries = "docker.io"\n', ''],
    ['version 1 with a text for a table', '[registries]\nsearch = "x"\n', ''],
    ['version 1 with an empty name', '[registries.insecure]\nregistries = [""]\n', ''],
    ['version 1 with a search with a path', '[registries.search]\nregistries = ["docker.io/library"]\n', ''],
    ['keys that nobody knows', 'foo = 1\n[[registry]]\nlocation = "a.io"\nbar = 2\n', ''],
  ])('agrees on whether a file is broken: %s', async (_what, main, dropIn) => {
    const { config } = await configured(main, dropIn);
    const { error } = await asked(`${hosts[0]}/team/app:1.0`);
    expect(config.faults.length > 0, `${error} ${JSON.stringify(config.faults)}`).toBe(
      error.includes('registries configuration'),
    );
  });

  it.each(['insecure', 'block'])('keeps what version 1 says: %s', async (list) => {
    const [origin = ''] = hosts;
    const { paths, config } = await configured(`[registries.${list}]\nregistries = ["${origin}/team/"]\n`, '');
    const name = `${origin}/team/app:1.0`;
    const before = await asked(name);
    writeFileSync(
      paths.linkPath,
      renderRegistriesDropIn([`${origin}/team/app`], { authority: ours, token: TOKEN }, config.entries),
    );
    const after = await asked(name);
    expect(after.asked.filter((line) => !line.includes(ours))).toEqual(before.asked);
    expect(after.asked.some((line) => line.startsWith(ours))).toBe(true);
    expect(before.asked.length > 0).toBe(list === 'insecure');
  });

  it('is asked for a tag also when an entry has it in its prefix', async () => {
    const [origin = '', place = ''] = hosts;
    const entry = `[[registry]]\nprefix = "${origin}/team/app:1.0"\nlocation = "${place}/moved:2"\ninsecure = true\n`;
    const { paths, config } = await configured('', entry);
    writeFileSync(
      paths.linkPath,
      renderRegistriesDropIn([`${origin}/team/app`], { authority: ours, token: TOKEN }, config.entries),
    );
    const after = await asked(`${origin}/team/app:1.0`);
    expect(after.asked[1]).toContain(`${ours}/v2/${TOKEN}`);
  });

  it('is asked first, then all sources in the order that the user configured', async () => {
    const [first = '', second = '', third = '', fourth = ''] = hosts;
    const name = fc.constantFrom(`${first}/team/app`, 'registry.example.com/team/app', 'a.example.com/app');
    const prefix = fc.constantFrom(
      first,
      `${first}/team`,
      `${first}/team/app`,
      `${first}/te`,
      'registry.example.com',
      'registry.example.com/team',
      'registry.example.com/team/app',
      '*.example.com',
      'example.com',
    );
    const place = fc.constantFrom(second, `${second}/deep/path`, third, `${third}/x`, fourth);
    const mirror = fc.record({
      location: place,
      insecure: fc.boolean(),
      pullFrom: fc.constantFrom(undefined, 'all', 'digest-only', 'tag-only'),
    });
    const entry: fc.Arbitrary<UserEntry> = fc.record({
      prefix,
      location: fc.option(place, { nil: undefined }),
      insecure: fc.boolean(),
      blocked: fc.boolean(),
      digestOnly: fc.boolean(),
      mirrors: fc.array(mirror, { maxLength: 2 }),
    });
    const entries = fc.uniqueArray(entry, { maxLength: 3, selector: (one) => one.prefix });
    const suffix = fc.constantFrom(':1.0', `@sha256:${'a'.repeat(64)}`);
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(entries, entries, name, suffix, async (main, dropIn, repository, ending) => {
        const dropIns = join(directory, 'registries.conf.d');
        const paths = {
          configPath: join(directory, 'registries.conf'),
          configDirectory: dropIns,
          linkPath: join(dropIns, '99-stickpin.conf'),
        };
        writeFileSync(paths.configPath, tomlOf(main));
        writeFileSync(join(dropIns, '50-user.conf'), tomlOf(dropIn));
        rmSync(paths.linkPath, { force: true });
        const before = await asked(repository + ending);
        fc.pre(!before.error.includes('loading'));
        const config = mergeRegistries(await readRegistriesConfig(paths, AbortSignal.timeout(10_000)), paths);
        const address = { authority: ours, token: TOKEN };
        writeFileSync(paths.linkPath, renderRegistriesDropIn([repository], address, config.entries));
        const after = await asked(repository + ending);
        const path = repository.replace(':', '__');
        const manifest = `/manifests/${ending.slice(1)}`;
        // Our registry speaks plain HTTP; the library tries TLS first.
        const own = [`tls ${ours}`, `${ours}/v2/${TOKEN}/${path}${manifest}`];
        if (/rewriting reference/.test(before.error)) {
          // A place that makes no name kept the library from pulling anything at all; it must not
          // keep it from ours.
          expect(after.asked.slice(0, own.length)).toEqual(own);
        } else {
          expect(after.asked).toEqual([...own, ...before.asked]);
          compared += before.asked.length;
        }
      }),
      { numRuns: 60 },
    );
    expect(compared).toBeGreaterThan(10);
  }, 300_000);
});
