import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { keepSettings, loadUsableSettings } from '../../../src/config/usable-settings.ts';
import { defaultSettings } from '../../../src/domain/settings/settings.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const { signal } = new AbortController();

describe('the settings without what is wrong in them', () => {
  const base = folderForEach();
  const load = (text: string) => {
    writeFileSync(join(base, 'main.toml'), text);
    return loadUsableSettings(
      { fragments: [{ file: join(base, 'main.toml') }, { folder: join(base, 'local.d') }] },
      join(base, 'kept'),
      signal,
    );
  };
  const AROUND = '[registry]\nallow_uids = [7]\n';
  const AFTER = '\n[trust]\nthreshold = 2\n';

  it.each([
    ['nothing', '', undefined],
    ['an unknown key', '[preload]\nparalel = 3\n', 'preload.paralel'],
    ['a wrong type', '[preload]\nparallel = "many"\n', 'preload.parallel'],
    ['a wrong element of a list', '[media]\nfilesystems = ["vfat", "ntfs3g"]\n', 'media.filesystems'],
    ['a section in the place of a key', '[preload.parallel]\nx = 1\n', 'preload.parallel'],
    ['an unknown section', '[preloads]\nparallel = 3\n', 'preloads'],
    ['a line that is no TOML', '[preload]\nparallel = 3 d\n', 'main.toml'],
    ['two of them', '[preload]\nparallel = 3 d\nstall =\n', 'main.toml'],
    [
      'a header that is no TOML, whose keys would belong to another section',
      '[fleet\nlisten = "0.0.0.0:1"\n',
      'main.toml',
    ],
    ['settings that do not fit together', '[update]\nstrategy = "window"\n', 'update.windows'],
  ])('has everything but %s', async (_what, text, named) => {
    const { settings, fault } = await load(`${AROUND}${text}${AFTER}`);
    expect({ ...settings, registry: settings.registry.allow_uids, trust: settings.trust.threshold }).toEqual({
      ...defaultSettings,
      registry: [7],
      trust: 2,
    });
    expect(Object.isFrozen(settings.registry)).toBe(true);
    expect(fault?.message).toEqual(named === undefined ? undefined : expect.stringContaining(named));
  });

  it.each([
    ['is no text', '\0\u0001'.repeat(1_000)],
    ['has more wrong lines than a person makes', 'x\n'.repeat(10_000)],
  ])('are the defaults, soon, for a file that %s', async (_what, text) => {
    const { settings, fault } = await load(text);
    expect(settings).toEqual(defaultSettings);
    expect(fault?.code).toBe('config/syntax');
  });

  it('has the other files when one has a name that would be ignored, or is a folder', async () => {
    mkdirSync(join(base, 'local.d/20.toml'), { recursive: true });
    writeFileSync(join(base, 'local.d/10.tmol'), '[trust]\nthreshold = 5\n');
    writeFileSync(join(base, 'local.d/30.toml'), '[trust]\nthreshold = 3\n');
    const { settings, fault } = await load(AROUND);
    expect([settings.trust.threshold, settings.registry.allow_uids]).toEqual([3, [7]]);
    expect(fault?.message).toMatch(/10\.tmol/);
  });

  it('are those that were valid last, once they are kept, as far as this version knows them', async () => {
    const { file = {} } = await load('[trust]\nkeys_dir = "/srv/keys"\n[preload]\nstall = "7 min"\n');
    await keepSettings(join(base, 'kept'), { ...file, newer: { key: 1 } } as typeof file, signal);
    const { settings, fault } = await load('[trust]\nkeys_dir = 7\nthreshold = 2\n');
    expect(settings).toEqual({
      ...defaultSettings,
      trust: { ...defaultSettings.trust, keys_dir: '/srv/keys' },
      preload: { ...defaultSettings.preload, stall: 7 * 60_000 },
    });
    expect(fault?.message).toContain('trust.keys_dir');
  });

  it.each(['', '[1]', '{"a"'])('are those without what is wrong where the kept ones are %j', async (text) => {
    mkdirSync(join(base, 'kept'));
    writeFileSync(join(base, 'kept/settings.json'), text);
    expect((await load('[trust]\nkeys_dir = 7\nthreshold = 2\n')).settings.trust.threshold).toBe(2);
  });

  it('refuses a required file that is not there', async () => {
    const sources = { fragments: [{ file: join(base, 'none.toml'), required: true }] };
    await expect(loadUsableSettings(sources, undefined, signal)).rejects.toMatchObject({ code: 'config/file' });
  });
});
