import type { Section, Setting } from '../domain/settings/sections.ts';
import { settingsTable } from '../domain/settings/settings.ts';
import { NODE_SOURCES, type SettingsFragment } from './load-settings.ts';
import { tomlOf, type WrittenValue } from './print-settings.ts';

const INTRODUCTION = `# Settings

<!-- \`npm run docs\` writes this page from src/domain/settings; do not edit it by hand -->

A node reads its settings from the places below: the vendor's, the main file, those of the running
system, and those of the administrator. A later place wins over an earlier one, key by key. Files in
a folder are read in the order of their names, which must end in \`.toml\`.

${NODE_SOURCES.fragments.map(placeOf).join('\n')}

All settings are optional. A key that does not exist, or a value of a wrong type, is an error that
names the file and the key. The daemon applies changed settings automatically. When the new settings
are wrong, it keeps those in force.

\`stickpin config check\` says whether the settings are valid. \`stickpin config show\` prints all
settings in force, as they are written, defaults included.
`;

/** The page \`docs/settings.md\`: one table for each section, with a row for each setting. */
export function settingsReference(): string {
  const sections = Object.entries<Section>(settingsTable).map(([section, { about, settings, isNamed }]) => {
    const name = isNamed ? `${section}.NAME` : section;
    const rows = Object.entries(settings).map(([key, setting]) => row(`${name}.${key}`, setting));
    return [`## \`[${name}]\``, '', about, '', ...HEAD, ...rows, ''].join('\n');
  });
  return [INTRODUCTION, ...sections].join('\n');
}

const HEAD = [
  '| Setting | Type | Default | Unit | Accepted values | Meaning |',
  '| --- | --- | --- | --- | --- | --- |',
] as const;

function row(path: string, { type, about, default: value }: Setting): string {
  const written = value === undefined ? 'not set' : `\`${tomlOf(value as WrittenValue)}\``;
  return `| ${[`\`${path}\``, type.name, written, type.unit ?? '', type.range ?? '', about].join(' | ')} |`;
}

function placeOf(fragment: SettingsFragment, index: number): string {
  return `${index + 1}. \`${'folder' in fragment ? `${fragment.folder}/*.toml` : fragment.file}\``;
}
