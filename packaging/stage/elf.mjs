import { execFileSync } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ARCHITECTURES } from './architectures.mjs';

/** The oldest C and C++ libraries that the documentation promises: those of RHEL 9 and its kin. */
const FLOOR = { GLIBC: '2.34', GLIBCXX: '3.4.29' };

/**
 * What the programs below a folder need of a node: its newest symbol versions and its libraries.
 *
 * @throws Error when a program is for another architecture, or needs more than {@link FLOOR}
 */
export async function needsOf(folder, arch) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile() && /^node$|\.node$|\.so/.test(entry.name));
  const needs = { GLIBC: '0', GLIBCXX: '0', libraries: new Set() };
  for (const entry of names) {
    const file = join(entry.parentPath, entry.name);
    const text = execFileSync('readelf', ['--wide', '--file-header', '--dynamic', '--version-info', file], {
      encoding: 'utf8',
      env: { ...process.env, LC_ALL: 'C' },
      maxBuffer: 64 * 1024 * 1024,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const machine = /Machine:\s+(.*)/.exec(text)?.[1];
    if (machine !== ARCHITECTURES[arch].elf)
      throw new Error(`${file} is for ${machine}, and this is a package for ${arch}`);
    for (const [, library] of text.matchAll(/\(NEEDED\).*\[(.*)\]/g)) needs.libraries.add(library);
    for (const [, kind, version] of text.matchAll(/\b(GLIBC|GLIBCXX)_(\d[\d.]*)/g)) {
      if (isNewer(version, FLOOR[kind]))
        throw new Error(`${file} needs ${kind} ${version}; ${FLOOR[kind]} is promised`);
      if (isNewer(version, needs[kind])) needs[kind] = version;
    }
  }
  return { ...needs, libraries: [...needs.libraries].sort() };
}

function isNewer(one, other) {
  const [a, b] = [one, other].map((version) => version.split('.').map(Number));
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}
