import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { checkCrio } from '../../../../src/doctor/check-crio.ts';
import type { CrioPaths } from '../../../../src/runtime/crio/crio-config.ts';
import { createCrioFiles } from '../../../../src/runtime/crio/crio-files.ts';
import { crioOn, findingsOf } from '../../../support/examined-node.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const signal = AbortSignal.timeout(60_000);
const PIN = 'quay.example.com/a@sha256:aa';

describe("the checks of CRI-O's files", () => {
  let root: string;
  let paths: CrioPaths;
  let guard: string;
  let tmpfiles: string;
  let rootsRegistriesFile: string;
  const put = (path: string, text: string) => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  };

  /** A node as install.sh leaves it, with one image pinned. */
  beforeEach(async () => {
    root = temporaryFolder();
    const at = (path: string) => join(root, path);
    paths = {
      configPath: at('etc/crio/crio.conf'),
      configDirectory: at('etc/crio/crio.conf.d'),
      pinsLink: at('etc/crio/crio.conf.d/99-stickpin.conf'),
      pinsFile: at('run/crio/crio.conf.d/99-stickpin.conf'),
      persistentPinsFile: at('var/99-stickpin.conf'),
      registriesPath: at('etc/containers/registries.conf'),
      registriesDirectory: at('etc/containers/registries.conf.d'),
      mirrorsLink: at('etc/containers/registries.conf.d/99-stickpin.conf'),
      mirrorsFile: at('run/stickpin/registries.conf'),
      persistentMirrorsFile: at('state/registries.conf'),
      reloadMarker: at('run/crio-reload-owed'),
      policyPath: at('etc/containers/policy.json'),
      policiesDirectory: at('etc/crio/policies'),
      signatureLookupFile: at('etc/containers/registries.d/99-stickpin.yaml'),
    };
    guard = at('guard.conf');
    rootsRegistriesFile = at('root/.config/containers/registries.conf');
    tmpfiles = at('tmpfiles.conf');
    // The real ones, below another root.
    for (const [from, to] of [
      ['systemd/crio-guard.conf', guard],
      ['systemd/stickpin-crio.tmpfiles.conf', tmpfiles],
    ] as const) {
      const text = readFileSync(join(import.meta.dirname, '../../../..', from), 'utf8');
      const own = text
        .replaceAll('/var/lib/stickpin/crio/99-stickpin.conf', paths.persistentPinsFile)
        .replaceAll(/(?<![\w/])\/(run|etc)\/crio\/crio\.conf\.d\/99-stickpin\.conf/g, `${root}$&`);
      put(to, own);
    }
    put(paths.mirrorsFile, '');
    mkdirSync(paths.registriesDirectory, { recursive: true });
    symlinkSync(paths.mirrorsFile, paths.mirrorsLink);
    await createCrioFiles(paths, { authority: '127.0.0.1:1', token: 't' }).writePins([PIN], signal);
  });

  const look = async () =>
    (
      await findingsOf(checkCrio, {
        crio: crioOn(paths, { tmpfiles: [join(root, 'none'), tmpfiles], guard, rootsRegistriesFile }),
      })
    ).map(({ subject, verdict, message }) => ({ subject, verdict, message }));
  const troubles = async () => (await look()).filter(({ verdict }) => verdict !== 'ok');

  it('finds nothing wrong on a node as it is installed', async () => {
    expect(await troubles()).toEqual([]);
    expect(await look()).toContainEqual({
      subject: 'crio pins',
      verdict: 'ok',
      message: '1 image is pinned, and no file of others takes it away',
    });
  });

  it('finds a file of root that hides all mirrors (docs/runtime-facts.md, fact 12)', async () => {
    put(rootsRegistriesFile, '');
    const message = `CRI-O reads ${rootsRegistriesFile} and nothing in ${paths.registriesDirectory}, so that it uses no mirror of stickpin`;
    expect(await troubles()).toEqual([{ subject: 'registries.conf.d', verdict: 'fault', message }]);
  });

  it.each([
    [
      'zz-last.conf',
      '[[registry]]\nprefix = "quay.example.com/ocp/etcd"\nlocation = "m.example.com"\n',
      /takes our mirrors away/,
    ],
    ['10-other.conf', '[[registry]]\nlocation = "https://m.example.com"\n', /is broken: .* must be without http/],
  ])('finds a file that hides mirrors: %s', async (name, text, said) => {
    const path = join(paths.registriesDirectory, name);
    await createCrioFiles(paths, { authority: '127.0.0.1:1', token: 't' }).writeMirrors(
      ['quay.example.com/ocp/etcd'],
      signal,
    );
    expect(await troubles()).toEqual([]);
    put(path, text);
    const found = (await troubles()).find(({ subject }) => subject === 'registries.conf.d');
    expect(found?.verdict).toBe('fault');
    expect(found?.message).toMatch(said);
    expect(found?.message).toContain(path);
  });

  it('finds a dangling link, with which CRI-O would not start', async () => {
    rmSync(paths.pinsFile);
    const lost = `${paths.pinsFile} does not hold the pins of ${paths.persistentPinsFile}`;
    expect(await troubles()).toEqual([
      { subject: 'crio link', verdict: 'fault', message: `${paths.pinsLink} leads to nothing: CRI-O would not start` },
      { subject: 'crio pins', verdict: 'warning', message: lost },
    ]);
    writeFileSync(paths.pinsFile, '');
    expect(await troubles()).toEqual([{ subject: 'crio pins', verdict: 'warning', message: lost }]);
  });

  it.each([
    ['no link', () => rmSync(paths.pinsLink), 'is missing'],
    [
      'a file in its place',
      () => {
        rmSync(paths.pinsLink);
        writeFileSync(paths.pinsLink, '');
      },
      'is a file of its own',
    ],
    [
      'a link elsewhere',
      () => {
        rmSync(paths.pinsLink);
        symlinkSync('/etc/hostname', paths.pinsLink);
      },
      '/etc/hostname',
    ],
  ])('finds %s', async (_what, spoil, said) => {
    spoil();
    expect(await troubles()).toEqual([
      { subject: 'crio link', verdict: 'fault', message: expect.stringContaining(said) },
    ]);
  });

  it('finds missing or incomplete tmpfiles.d lines and guard', async () => {
    writeFileSync(tmpfiles, `L ${paths.pinsLink} - - - - ${paths.pinsFile}\n`);
    writeFileSync(guard, '[Service]\n');
    expect(await troubles()).toEqual([
      { subject: 'crio boot', verdict: 'fault', message: expect.stringContaining('does not make both') },
      { subject: 'crio guard', verdict: 'warning', message: expect.stringContaining('was changed') },
    ]);
    rmSync(tmpfiles);
    rmSync(guard);
    expect(await troubles()).toEqual([
      { subject: 'crio boot', verdict: 'fault', message: expect.stringContaining(`${tmpfiles} is missing`) },
      { subject: 'crio guard', verdict: 'fault', message: expect.stringContaining(`${guard} is missing`) },
    ]);
  });

  it('finds a file that overrides the pins, and copies that differ', async () => {
    const behind = join(paths.configDirectory, '99-z.conf');
    writeFileSync(behind, '[crio.image]\npinned_images = []\n');
    expect(await troubles()).toEqual([
      { subject: 'crio pins', verdict: 'fault', message: expect.stringContaining(behind) },
    ]);
    rmSync(behind);
    writeFileSync(paths.persistentPinsFile, '# lost\n');
    expect(await troubles()).toEqual([
      { subject: 'crio pins', verdict: 'warning', message: expect.stringContaining('differs') },
    ]);
  });

  it('finds mirrors that others may not read', async () => {
    chmodSync(paths.mirrorsFile, 0o600);
    expect(await troubles()).toEqual([
      { subject: 'registries.conf.d', verdict: 'fault', message: expect.stringContaining(paths.mirrorsFile) },
    ]);
  });
});
