import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

interface Entry {
  readonly integrity?: string;
  readonly resolved?: string;
  readonly hasInstallScript?: boolean;
}
const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Entry> };
const entries = Object.entries(packages).filter(([path]) => path !== '');
const pathsOf = (found: (entry: Entry) => boolean) => entries.flatMap(([path, entry]) => (found(entry) ? [path] : []));

describe('package-lock.json', () => {
  it('has the integrity of every entry', () => {
    expect(entries.length).toBeGreaterThan(300);
    expect(pathsOf(({ integrity = '' }) => !/^sha512-[\w+/]{86}==$/.test(integrity))).toEqual([]);
  });

  it('names no registry, so that none is asked that others do not reach', () => {
    expect(pathsOf(({ resolved }) => resolved !== undefined)).toEqual([]);
  });

  it('has an install script in these packages only, and npm runs none', () => {
    expect(pathsOf(({ hasInstallScript }) => hasInstallScript === true)).toEqual(
      ['better-sqlite3', 'esbuild', 'koffi', 'protobufjs'].map((name) => `node_modules/${name}`),
    );
    expect(readFileSync('.npmrc', 'utf8')).toMatch(/^ignore-scripts=true$/m);
  });
});
