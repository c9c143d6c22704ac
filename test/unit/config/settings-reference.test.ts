import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { settingsReference } from '../../../src/config/settings-reference.ts';
import type { Section } from '../../../src/domain/settings/sections.ts';
import { defaultSettings, settingsTable } from '../../../src/domain/settings/settings.ts';

describe('docs/settings.md', () => {
  it("is what 'npm run docs' writes", () => {
    expect(readFileSync('docs/settings.md', 'utf8')).toBe(settingsReference());
  });

  it('has a row for each setting, with its type, default, unit, accepted values and meaning', () => {
    const lines = settingsReference().split('\n');
    for (const [name, table] of Object.entries(defaultSettings)) {
      for (const key of Object.keys(table)) {
        expect(lines.filter((line) => line.startsWith(`| \`${name}.${key}\` |`))).toHaveLength(1);
      }
    }
    expect(lines).toContain(
      '| `preload.min_free_percent` | `"auto"` or number | `"auto"` | percent | `"auto"`, or 0 to 90 | Share of the image filesystem that stays free. `auto` is 15 on a node with a kubelet, which removes images and ends pods when less is free, and 5 on others. It also applies to its inodes, and to the filesystem on which the runtime stages blobs. |',
    );
    expect(lines).toContainEqual(
      expect.stringMatching(/^\| `runtime\.socket` \| absolute path \| not set \| {2}\| {2}\| /),
    );
  });

  it('breaks no table: no description has a pipe or a line break, and each is a sentence', () => {
    const sections = Object.values<Section>(settingsTable);
    const descriptions = sections.flatMap(({ about, settings }) => [
      about,
      ...Object.values(settings).map((setting) => setting.about),
    ]);
    for (const description of descriptions) expect(description).toMatch(/^[^|\n]+\.$/);
  });
});

describe('the default settings', () => {
  it('can not be changed', () => {
    expect(() => Object.assign(defaultSettings.preload, { parallel: 3 })).toThrow(TypeError);
    expect(() => Object.assign(defaultSettings.registry.allow_uids, { 1: 1000 })).toThrow(TypeError);
  });
});
