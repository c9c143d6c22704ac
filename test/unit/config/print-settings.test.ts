import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { parse } from 'toml';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { loadSettings } from '../../../src/config/load-settings.ts';
import { printSettings, writtenSettings } from '../../../src/config/print-settings.ts';
import { type Settings, settingsSchema } from '../../../src/config/schema.ts';

const settingsOf = (table: object): Settings => v.parse(settingsSchema, table);
const reread = (settings: Settings): Settings => settingsOf(parse(printSettings(settings)) as object);

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
    crio: fc.record({ unit: text }),
    preload: fc.record({ stall: duration, min_free_percent: fc.integer({ min: 0, max: 90 }) }, { requiredKeys: [] }),
    lifecycle: fc.record({ soak: duration, require: fc.array(text) }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
);

describe('printed settings', () => {
  it('give the same settings when they are read again, whatever they are', () => {
    fc.assert(
      fc.property(anySettings, (table) => {
        const settings = settingsOf(table);
        expect(reread(settings)).toEqual(settings);
      }),
      { numRuns: 300 },
    );
  });

  it('are a settings file that is taken', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stickpin-config-'));
    try {
      const settings = settingsOf({
        lifecycle: { soak: '20 min', protect: ['ocp@4.13.0'] },
        runtime: { kind: 'cri-o' },
      });
      writeFileSync(join(folder, 'stickpin.toml'), printSettings(settings));
      const read = await loadSettings({ fragments: [{ folder }] }, new AbortController().signal);
      expect(read).toEqual(settings);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('have durations with their unit, and every section and default', () => {
    const printed = printSettings(settingsOf({}));
    for (const line of ['grace = "1 min"', 'stall = "90 s"', 'soak = "10 min"', 'keys_dir = "/etc/stickpin/keys.d"']) {
      expect(printed).toContain(`${line}\n`);
    }
    expect(printed).toMatch(/^\[trust\]\n/);
    expect(printed).not.toMatch(/undefined|socket/);
    expect(writtenSettings(settingsOf({})).lifecycle?.soak).toBe('10 min');
  });

  it.each([
    [0, '0 s'],
    [1.5, '1500 ms'],
    ['36 h', '36 h'],
    ['48 h', '2 d'],
    ['0.5 ms', '0.5 ms'],
  ])('write a duration of %s as %s', (given, written) => {
    expect(writtenSettings(settingsOf({ media: { grace: given } })).media?.grace).toBe(written);
  });
});
