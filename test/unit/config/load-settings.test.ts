import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { loadSettings, NODE_SOURCES } from '../../../src/config/load-settings.ts';
import { settingsTable } from '../../../src/domain/settings/settings.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
let base: string;

beforeEach(() => {
  base = temporaryFolder();
});

function write(path: string, text: string): string {
  const full = join(base, path);
  mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, text);
  return full;
}

const load = () =>
  loadSettings(
    {
      fragments: [
        { folder: join(base, 'vendor.d') },
        { file: join(base, 'main.toml') },
        { folder: join(base, 'local.d') },
      ],
    },
    signal,
  );
async function problem(path: string, text: string): Promise<{ code: string; message: string }> {
  const full = write(path, text);
  const error = await load().then(
    () => ({ code: 'none', message: 'was taken', disposition: 'none' }),
    (thrown) => thrown,
  );
  expect(error.message).toContain(full);
  expect(error.disposition).toBe('reject');
  return error;
}

describe('loadSettings', () => {
  it('gives frozen defaults when nothing is configured', async () => {
    const settings = await load();
    expect(settings).toMatchObject({
      trust: { keys_dir: '/etc/stickpin/keys.d', threshold: 1 },
      media: {
        detect: true,
        directories: [],
        incoming: '/var/lib/stickpin/incoming',
        grace: 60_000,
        filesystems: ['vfat', 'exfat', 'ext4', 'iso9660', 'udf', 'squashfs'],
      },
      runtime: { kind: 'auto' },
      crio: { unit: 'crio.service', pins_file: '/run/crio/crio.conf.d/99-stickpin.conf' },
      registry: { listen: '127.0.0.1:5317', allow_uids: [0] },
      preload: { parallel: 'auto', min_free_percent: 'auto' },
      paths: { state_dir: '/var/lib/stickpin', run_dir: '/run/stickpin' },
    });
    expect(() => Object.assign(settings.media, { detect: false })).toThrow(TypeError);
    expect(() => Object.assign(settings.registry.allow_uids, { 1: 1000 })).toThrow(TypeError);
  });

  it('lets later sources win, key by key, and files in a folder in the order of their names', async () => {
    write('vendor.d/50.toml', '[preload]\nparallel = 3\nmin_free_percent = 5\n[registry]\nallow_uids = [0, 1]');
    write('main.toml', '[preload]\nparallel = 4\n[media]\ngrace = 5');
    write('local.d/20-b.toml', '[preload]\nparallel = 6');
    write('local.d/10-a.toml', '[preload]\nparallel = 5\n[registry]\nallow_uids = [7]');
    const { preload, media, registry } = await load();
    expect(preload).toMatchObject({ parallel: 6, min_free_percent: 5, stall: 90_000 });
    expect(media.grace).toBe(5_000);
    expect(registry.allow_uids).toEqual([7]);
  });

  it("reads a node's sources in the order of systemd: vendor, main file, runtime, administrator", () => {
    expect(NODE_SOURCES.fragments).toEqual([
      { folder: '/usr/lib/stickpin/stickpin.toml.d' },
      { file: '/etc/stickpin/stickpin.toml' },
      { folder: '/run/stickpin/stickpin.toml.d' },
      { folder: '/etc/stickpin/stickpin.toml.d' },
    ]);
  });

  it.each([
    ['90', 90_000],
    ['0', 0],
    ['1.5', 1_500],
    ['"250 ms"', 250],
    ['"90 s"', 90_000],
    ['"90s"', 90_000],
    ['"10 min"', 600_000],
    ['"1 h"', 3_600_000],
    ['"2 d"', 172_800_000],
    ['"30"', 30_000],
  ])('takes the duration %s', async (text, ms) => {
    write('main.toml', `[media]\ngrace = ${text}`);
    expect((await load()).media.grace).toBe(ms);
  });

  it.each(['-5', '"soon"', '"5 weeks"', 'true', '""', '"5 s 3"'])('refuses the duration %s', async (text) => {
    const { code, message } = await problem('main.toml', `[media]\ngrace = ${text}`);
    expect(code).toBe('config/key');
    expect(message).toContain('media.grace must be seconds, or text such as "90 s"');
  });

  it('takes services for hooks, and none by default', async () => {
    expect((await load()).hooks['before-activate']).toBe('');
    write('main.toml', '[hooks]\nbefore-activate = "k3s-install.service"\nrolled-back = "tell@ops.service"');
    expect((await load()).hooks).toMatchObject({
      'before-activate': 'k3s-install.service',
      'rolled-back': 'tell@ops.service',
      ready: '',
    });
  });

  it.each([
    'k3s-install',
    'a.target',
    '../a.service',
    'a/b.service',
    '.service',
    'a@.service',
    'a b.service',
    'a$(id).service',
    '-a.service',
    `${'a'.repeat(200)}.service`,
  ])('refuses the hook %s', async (unit) => {
    const { code, message } = await problem('main.toml', `[hooks]\nready = "${unit}"`);
    expect([code, message]).toEqual([
      'config/key',
      expect.stringContaining('hooks.ready must be the name of a systemd'),
    ]);
  });

  it('replaces the default filesystems with those that a file names', async () => {
    write('main.toml', '[media]\nfilesystems = ["xfs", "vfat"]');
    expect((await load()).media.filesystems).toEqual(['xfs', 'vfat']);
  });

  it.each([
    ['an unknown key', '[preload]\nparalel = 3', /: preload\.paralel is not a setting of stickpin; check its spelling/],
    ['an unknown section', '[preloads]\nparallel = 3', /: preloads is not a setting of stickpin/],
    ['a wrong type', '[preload]\nparallel = "3"', /: preload\.parallel .*number/],
    ['no pull at all', '[preload]\nparallel = 0', /: preload\.parallel /],
    [
      'too many pulls',
      '[preload]\nparallel = 17',
      /: preload\.parallel must be "auto", or a whole number from 1 to 16/,
    ],
    ['half a pull', '[preload]\nparallel = 1.5', /: preload\.parallel /],
    [
      'a file that node_exporter does not read',
      '[metrics]\ntextfile = "/var/lib/stickpin.txt"',
      /: metrics\.textfile must end in \.prom, since node_exporter reads no other file/,
    ],
    ['a relative path', '[paths]\nstate_dir = "var"', /: paths\.state_dir must be an absolute path/],
    [
      'an address that others reach',
      '[registry]\nlisten = "0.0.0.0:5317"',
      /: registry\.listen must be a loopback address/,
    ],
    [
      'a port that does not exist',
      '[registry]\nlisten = "127.0.0.1:99999"',
      /: registry\.listen must be a loopback address/,
    ],
    ['an address that does not exist', '[registry]\nlisten = "127.0.0.999:5317"', /: registry\.listen must be/],
    ['a unit that is none', '[crio]\nunit = ""', /: crio\.unit must be the name of a systemd service/],
    ['an unknown runtime', '[runtime]\nkind = "rkt"', /: runtime\.kind /],
    [
      'a filesystem that nobody mounts safely',
      '[media]\nfilesystems = ["vfat", "jfs"]',
      /: media\.filesystems\.1 must be a filesystem that stickpin can mount safely, one of vfat, .*xfs/,
    ],
    ['a filesystem in capitals', '[media]\nfilesystems = ["VFAT"]', /: media\.filesystems\.0 must be a filesystem/],
    ['no filesystem', '[media]\nfilesystems = []', /: media\.filesystems must name at least one filesystem/],
    ['a filesystem twice', '[media]\nfilesystems = ["xfs", "xfs"]', /: media\.filesystems must name each/],
    ['a section that is a value', 'preload = 3', /: preload /],
    ['an element of a list', '[registry]\nallow_uids = [0, -1]', /: registry\.allow_uids\.1 /],
    ['a key on the way to the prototype', '[__proto__]\nx = 1', /__proto__/],
  ])('names file and key of %s', async (_what, text, words) => {
    const { code, message } = await problem('local.d/10-mine.toml', text);
    expect(code).toBe('config/key');
    expect(message).toMatch(words);
    expect(message).toMatch(/; all settings are in stickpin\.toml\(5\)$/);
  });

  it.each(
    Object.entries(settingsTable).flatMap(([section, { settings }]) =>
      Object.keys(settings).map((key) => [section, key] as const),
    ),
  )('says in plain words what %s.%s must be', async (section, key) => {
    const table = section === 'streams' ? 'streams.ocp' : section;
    for (const value of ['-7.5', 'true', '"?!"', '[]', '["?!", 3]', '{ x = 1 }', '[{ x = 1 }]']) {
      write('main.toml', `[${table}]\n${key} = ${value}\n`);
      const told = await load().then(
        () => 'it was taken',
        (error: Error) => error.message,
      );
      expect(told).toMatch(/it was taken|main\.toml: line [12]: [a-z]+\.\S+ (must|is) /);
      expect(told).not.toMatch(/Invalid|Expected|Received|Array|Object|undefined/);
    }
  });

  it.each([
    ['an unknown key', '# x\n[preload]\nparalel = 3\n', /10-mine\.toml: line 3: preload\.paralel is not/],
    ['a wrong value', '[media]\ndetect = true\ngrace = "x"\n[preload]\n', /10-mine\.toml: line 3: media\.grace must/],
    ['an element of a list', '[registry]\nallow_uids = [\n 0,\n -1]', /: line 2: registry\.allow_uids\.1 /],
    ['a dotted key', 'preload.parallel = 3\npreload.x = 3', /: line 2: preload\.x /],
    ['an unknown table', '[preload]\nparallel = 3\n[prelod]\nx = 3', /: line 3: prelod /],
    ['an inline table', 'preload = { x = 3 }', /: line 1: preload\.x /],
    [
      'a lock without the process that requests it',
      '[update]\nfleet_lock = "http://x"',
      /: line 2: update\.fleet_lock needs/,
    ],
    ['a lock with a query', '[update]\nfleet_lock = "http://x/?a=b"', /: line 2: update\.fleet_lock must be a URL/],
    ['a lock of another scheme', '[update]\nfleet_lock = "ftp://x"', /: line 2: update\.fleet_lock must be a URL/],
    ['a group with a blank', '[update]\nfleet_lock_group = "a b"', /: line 2: update\.fleet_lock_group must/],
    [
      'settings that do not fit together',
      '[update]\nstrategy = "window"\nwindows = []',
      /: line 3: update\.windows names/,
    ],
  ])('names the line of %s', async (_what, text, words) => {
    expect((await problem('local.d/10-mine.toml', text)).message).toMatch(words);
  });

  it('needs the addresses of all nodes where no Kubernetes API has them', async () => {
    const { message } = await problem('local.d/10-mine.toml', '[fleet]\nenabled = true\nauth = "keys"');
    expect(message).toContain('fleet.listen is "auto", and fleet.auth is "keys"');
    expect(message).toContain('fleet.peers is empty, and fleet.auth is "keys"');
    const addresses = 'listen = "10.0.0.4"\npeers = ["10.0.0.5"]';
    write('local.d/10-mine.toml', `[fleet]\nenabled = true\nauth = "keys"\n${addresses}\n`);
    expect((await load()).fleet.keys_file).toBe('/etc/stickpin/fleet.keys');
  });

  it('names the file that sets one of the settings that do not fit together', async () => {
    write('main.toml', '[update]\nstrategy = "window"\n[fleet]\nenabled = true\nauth = "none"\n');
    write('local.d/10-other.toml', '[update]\ntime_zone = "UTC"\n');
    write('local.d/20-other.toml', '[fleet]\nmax_clients = 2\n[streams.sonic]\nreplace_stopped = ["swss"]\n');
    const { message } = await load().then(
      () => expect.unreachable(),
      (error: Error) => error,
    );
    expect(message).toContain('main.toml: line 2: update.windows names no window');
    expect(message).toContain('main.toml: line 5: fleet.listen is "auto"');
    expect(message).toContain(
      '20-other.toml: line 4: streams.sonic.replace_stopped needs streams.sonic.tag_after_proof',
    );
  });

  it.each([
    [
      '[hooks]\nactivated = "stickpin-host-switch.service"\n',
      /line 2: hooks\.activated is .*started for no stream yet/,
    ],
    ['[hooks]\nplugged = "stickpin-host-switch.service"\n', /line 2: hooks\.plugged can't be .*which is for releases/],
    ['[streams.ocp]\nunits = ["mine.service"]\n', /line 2: .*streams\.ocp\.unit_keys names no key/],
    [
      `[hooks]\nheld = "mine.service"\n[streams.ocp]\nunits = ["mine.service"]\nunit_keys = ["${'ab'.repeat(32)}"]\n`,
      /line 2: hooks\.held can't be mine\.service, which is for releases/,
    ],
    ['[streams.ocp]\nunit_keys = ["factory-2026"]\n', /must be a key id, 64 lower-case hex digits/],
  ])('refuses a unit that would start for nobody: %j', async (text, words) => {
    expect((await problem('local.d/10-mine.toml', text)).message).toMatch(words);
  });

  it('names file and line of what is not TOML', async () => {
    const { code, message } = await problem('local.d/10-mine.toml', '[preload]\nparallel = 3\nthis is wrong\n');
    expect(code).toBe('config/syntax');
    expect(message).toContain("10-mine.toml is not TOML: line 3 can't be read from column 6 on: this is wrong");
    const long = await problem('local.d/10-mine.toml', `${'x '.repeat(50_000)}\n`);
    expect(long.message.length).toBeLessThan(1_000);
  });

  it('refuses a file with a wrong name, and ignores files that editors leave', async () => {
    write('local.d/.10-mine.toml.swp', '(');
    write('local.d/10-mine.toml~', '(');
    await load();
    const { code, message } = await problem('local.d/10-mine.conf', '[preload]\nparallel = 3');
    expect(code).toBe('config/file');
    expect(message).toMatch(/would be ignored, because its name does not end in \.toml/);
  });

  it('says which file or folder can not be read', async () => {
    mkdirSync(join(base, 'local.d/10-mine.toml'), { recursive: true });
    await expect(load()).rejects.toMatchObject({
      code: 'config/file',
      message: expect.stringMatching(/10-mine\.toml can't be read: it is a directory \(EISDIR/),
    });
    rmSync(join(base, 'local.d'), { recursive: true });
    expect((await problem('local.d', 'a file')).code).toBe('config/file');
  });

  it('requires a file that was given by name, and ignores other files that are absent', async () => {
    const file = join(base, 'nowhere.toml');
    const signal = new AbortController().signal;
    await expect(loadSettings({ fragments: [{ file, required: true }] }, signal)).rejects.toMatchObject({
      code: 'config/file',
      message: `${file} is not there; check its name`,
    });
    expect((await loadSettings({ fragments: [{ file }] }, signal)).preload.parallel).toBe('auto');
  });

  it('stops when its signal aborts', async () => {
    write('main.toml', '');
    const stop = AbortSignal.abort(new Error('stop'));
    await expect(loadSettings({ fragments: [{ file: join(base, 'main.toml') }] }, stop)).rejects.toThrow('stop');
  });
});

describe('settings about time', () => {
  const given = (days: string, start: string, length: string) =>
    `[[update.windows]]\ndays = ${days}\nstart_time = ${start}\nlength_minutes = ${length}\n`;

  it.each([
    ['[update]\ntime_zone = "Mars/Olympus"\n', 'update.time_zone', 'must be a time zone'],
    ['[update]\ntime_zone = "+01:00"\n', 'update.time_zone', 'must be a time zone'],
    ['[update]\ntime_zone = 1\n', 'update.time_zone', 'must be a time zone'],
    [given('["Samstag"]', '"23:30"', '60'), 'update.windows.0.days.0', 'must be a weekday'],
    [given('[]', '"23:30"', '60'), 'update.windows.0.days', 'must name at least one weekday'],
    [given('["Sat", "saturday"]', '"23:30"', '60'), 'update.windows.0.days', 'must name each weekday once'],
    [given('"Sat"', '"23:30"', '60'), 'update.windows.0.days', 'must be a list of weekdays'],
    [given('["Sat"]', '"24:00"', '60'), 'update.windows.0.start_time', 'must be a time from "00:00" to "23:59"'],
    [given('["Sat"]', '"7:00"', '60'), 'update.windows.0.start_time', 'must be a time from'],
    [given('["Sat"]', '07:00:00', '60'), 'update.windows.0.start_time', 'must be a time from'],
    [given('["Sat"]', '700', '60'), 'update.windows.0.start_time', 'must be a time in quotes'],
    [given('["Sat"]', '"23:30"', '0'), 'update.windows.0.length_minutes', 'must be a whole number of minutes'],
    [given('["Sat"]', '"23:30"', '-5'), 'update.windows.0.length_minutes', 'must be a whole number of minutes'],
    [given('["Sat"]', '"23:30"', '1.5'), 'update.windows.0.length_minutes', 'must be a whole number of minutes'],
    [given('["Sat"]', '"23:30"', 'nan'), 'update.windows.0.length_minutes', 'must be a whole number of minutes'],
    [given('["Sat"]', '"23:30"', 'inf'), 'update.windows.0.length_minutes', 'must be a whole number of minutes'],
    [given('["Sat"]', '"23:30"', '10081'), 'update.windows.0.length_minutes', 'must be a whole number of minutes'],
    ['[update]\nrollout_wariness = 1.5\n', 'update.rollout_wariness', ''],
    ['[update]\nrollout_wariness = nan\n', 'update.rollout_wariness', ''],
    ['[update]\nrollout_wariness = -0.1\n', 'update.rollout_wariness', ''],
    ['[streams.ocp]\ncurrent = "latest!"\n', 'streams.ocp.current', 'must be a version'],
    ['[streams.OCP]\ncurrent = "1.0.0"\n', 'streams', ''],
  ])('%j is refused, with the key %s', async (text, key, why) => {
    const { message } = await problem('main.toml', text);
    expect(message).toContain(key);
    expect(message).toContain(why);
  });
});
