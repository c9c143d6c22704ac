import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { parse } from 'toml';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { loadSettings, readSettings } from '../../../src/config/load-settings.ts';
import { printSettings, type SettingsFile, writtenSettings } from '../../../src/config/print-settings.ts';
import { type Settings, settingsSchema } from '../../../src/domain/settings/settings.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

const settingsOf = (table: object): Settings => v.parse(settingsSchema, table);
const printed = (file: SettingsFile): string => printSettings(writtenSettings(file));

const amount = fc.oneof(
  fc.nat(),
  fc.nat().map((hundredths) => `${Math.floor(hundredths / 100)}.${hundredths % 100}`),
);
const duration = fc
  .tuple(amount, fc.constantFrom('', ' ms', ' s', 's', ' min', ' h', ' d'))
  .map(([number, unit]) => (unit === '' && typeof number === 'number' ? number : `${number}${unit}`));
const text = fc.string({ unit: 'grapheme' });
const path = text.map((name) => `/${name}`);
const anySettings = fc.record(
  {
    trust: fc.record({ keys_dir: path, threshold: fc.integer({ min: 1, max: 9 }) }, { requiredKeys: [] }),
    media: fc.record({ directories: fc.array(path), grace: duration, detect: fc.boolean() }, { requiredKeys: [] }),
    runtime: fc.record({ socket: path }, { requiredKeys: [] }),
    crio: fc.record({ unit: fc.constantFrom('crio.service', 'crio@node.service'), config_file: path }),
    preload: fc.record({ stall: duration, min_free_percent: fc.integer({ min: 0, max: 90 }) }, { requiredKeys: [] }),
    lifecycle: fc.record({ soak: duration, require: fc.array(text) }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
);

describe('printed settings', () => {
  it('give the same settings when they are read again, for any settings', () => {
    fc.assert(
      fc.property(anySettings, (table) => {
        expect(settingsOf(parse(printed(table as SettingsFile)) as object)).toEqual(settingsOf(table));
      }),
      { numRuns: 300 },
    );
  });

  it('give the same windows when they are read again, an empty list too', () => {
    const windows = [
      { days: ['Sat', 'sunday'], start_time: '23:30', length_minutes: 60 },
      { days: ['Mon'], start_time: '00:00', length_minutes: 10_080 },
    ];
    const file = { update: { strategy: 'window', time_zone: 'Europe/Berlin', windows } };
    expect(printed(file)).toContain(
      'windows = [{ days = ["Sat", "sunday"], start_time = "23:30", length_minutes = 60 }, {',
    );
    expect(settingsOf(parse(printed(file)) as object)).toEqual(settingsOf(file));
    expect(settingsOf(parse(printed({ update: { windows: [] } })) as object).update.windows).toEqual([]);
  });

  it('are a valid settings file', async () => {
    const folder = temporaryFolder();
    const file = { lifecycle: { soak: '20 min', protect: ['ocp@4.13.0'] }, runtime: { kind: 'cri-o' } };
    writeFileSync(join(folder, 'stickpin.toml'), printed(file));
    const read = await loadSettings({ fragments: [{ folder }] }, new AbortController().signal);
    expect(read).toEqual(settingsOf(file));
  });

  it('have durations with their unit, and every section and default', () => {
    const text = printed({});
    for (const line of ['grace = "60 s"', 'stall = "90 s"', 'soak = "10 min"', 'keys_dir = "/etc/stickpin/keys.d"']) {
      expect(text).toContain(`${line}\n`);
    }
    expect(text).toMatch(/^\[trust\]\n/);
    expect(text).not.toMatch(/undefined|socket/);
    expect(writtenSettings({}).lifecycle?.soak).toBe('10 min');
  });

  it.each([
    ['0', 0],
    ['90', 90],
    ['"0 s"', '0 s'],
    ['"1500 ms"', '1500 ms'],
    ['"36 h"', '36 h'],
    ['"48 h"', '48 h'],
    ['"0.5 ms"', '0.5 ms'],
    ['"120s"', '120s'],
  ])('show the duration %s as it is written in a file', async (text, shown) => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, '10.toml'), `[media]\ngrace = "7 d"\ndetect = false\n[preload]\nstall = "80 s"`);
    writeFileSync(join(folder, '20.toml'), `[media]\ngrace = ${text}`);
    const { file } = await readSettings({ fragments: [{ folder }] }, new AbortController().signal);
    expect(writtenSettings(file).media).toMatchObject({ grace: shown, detect: false });
    expect(printed(file)).toContain(`\ngrace = ${text}\n`);
    expect(printed(file)).toContain('\nstall = "80 s"\n');
  });
});
