import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * Something an integration test needs of the machine: its name, how it is found, and how to get it.
 */
export interface Requirement {
  readonly name: string;
  readonly isMet: () => boolean;
  /** What to do when it is lacking, as `apt-get install skopeo`. */
  readonly remedy: string;
}

/**
 * What the tests of this repository ask for by name. A test may pass a `Requirement` of its own as
 * well.
 */
const knownRequirements = {
  root: { name: 'root', isMet: () => process.getuid?.() === 0, remedy: 'run as root' },
  skopeo: program('skopeo', 'apt-get install skopeo'),
  'dbus-daemon': program('dbus-daemon', 'apt-get install dbus-daemon'),
  polkit: {
    name: 'polkitd',
    isMet: () => existsSync('/usr/lib/polkit-1/polkitd'),
    remedy: 'apt-get install polkitd',
  },
  containerd: program('containerd', 'apt-get install containerd'),
  openssl: program('openssl', 'apt-get install openssl'),
  chroot: program('chroot', 'apt-get install coreutils'),
  mmdebstrap: program('mmdebstrap', 'apt-get install mmdebstrap'),
  promtool: program('promtool', "take /usr/bin/promtool out of Debian's package prometheus"),
  mandoc: program('mandoc', "take /usr/bin/mandoc out of Debian's package mandoc, which would replace man"),
  zsh: program('zsh', 'apt-get install zsh'),
  fish: program('fish', 'apt-get install fish'),
} as const satisfies Record<string, Requirement>;

/** A requirement by its name in `knownRequirements`, or one of the test's own. */
export type Needed = keyof typeof knownRequirements | Requirement;

/**
 * Gate of a test file: `describe.runIf(have('skopeo', 'root'))('…', …)`.
 *
 * @returns true when everything needed is there. Otherwise writes one line to stderr that names
 *   what is lacking and how to get it, and returns false, so that the tests are skipped.
 * @throws Error with that line when `CI=true`: there nothing may be skipped.
 */
export function have(...needed: readonly Needed[]): boolean {
  const missing = needed.map(resolve).filter((requirement) => !requirement.isMet());
  if (missing.length === 0) return true;
  const list = missing.map(({ name, remedy }) => `${name} (${remedy})`).join(', ');
  const line = `Integration tests need what this machine lacks: ${list}`;
  if (process.env.CI === 'true') throw new Error(line);
  process.stderr.write(`${line}; skipped\n`);
  return false;
}

/**
 * A requirement that is met when the program is found on PATH or in the system directories that
 * hold root's programs.
 */
export function program(name: string, remedy: string): Requirement {
  return { name, isMet: () => programPath(name) !== undefined, remedy };
}

/**
 * The path of a program, or undefined. `/usr/sbin` and `/sbin` are searched even when PATH lacks
 * them.
 */
export function programPath(name: string): string | undefined {
  const directories = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  return directories
    .filter((directory) => directory !== '')
    .map((directory) => join(directory, name))
    .find(existsSync);
}

function resolve(needed: Needed): Requirement {
  return typeof needed === 'string' ? knownRequirements[needed] : needed;
}
