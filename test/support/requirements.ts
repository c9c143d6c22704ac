import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, join } from 'node:path';

/**
 * Global setup of vitest. It leaves on PATH Node.js and the programs that every Debian has; `have`
 * adds what a test requires. So a test that runs a program without requiring it fails on every
 * machine. Where there is no dpkg, PATH stays as it is.
 *
 * @returns what removes its folder
 */
export function setup(): (() => void) | undefined {
  const packages = spawnSync('dpkg-query', ['--show', `--showformat=\${Essential} \${Package}\n`], {
    encoding: 'utf8',
  });
  if (packages.status !== 0) return undefined;
  const essential = [...packages.stdout.matchAll(/^yes (.+)$/gm)].map(([, name = '']) => name);
  const files = spawnSync('dpkg-query', ['--listfiles', ...essential, 'mount'], { encoding: 'utf8' });
  const programs = files.stdout.split('\n').filter((file) => /^(?:\/usr)?\/s?bin\/[^/]+$/.test(file));
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-programs-'));
  chmodSync(folder, 0o755);
  const path = join(folder, 'essential');
  mkdirSync(path);
  const links = new Map([...programs, '/usr/bin/awk', '/usr/bin/which'].map((file) => [basename(file), file]));
  for (const [name, file] of links.set('node', process.execPath)) symlinkSync(file, join(path, name));
  process.env.STICKPIN_TEST_PROGRAMS = folder;
  process.env.STICKPIN_TEST_PATH = process.env.PATH;
  process.env.PATH = path;
  return () => rmSync(folder, { recursive: true, force: true });
}

/**
 * Something an integration test needs of the machine: its name, how it is found, and how to get it.
 */
export interface Requirement {
  readonly name: string;
  readonly isMet: () => boolean;
  /** The programs that a test may run when it is met. */
  readonly programs?: readonly string[];
  /** Whether they call programs of packages that theirs depend on. */
  readonly haveHelpers?: boolean;
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
  busctl: program('busctl', 'apt-get install systemd'),
  polkit: {
    name: 'polkitd',
    isMet: () => existsSync('/usr/lib/polkit-1/polkitd'),
    remedy: 'apt-get install polkitd',
  },
  containerd: program('containerd', 'apt-get install containerd'),
  openssl: program('openssl', 'apt-get install openssl'),
  gpgv: program('gpgv', 'apt-get install gpgv'),
  gpg: { ...withHelpers('gpg', 'apt-get install gnupg'), programs: ['gpg', 'gpgconf'] },
  npm: program('npm', 'apt-get install npm'),
  chroot: program('chroot', 'apt-get install coreutils'),
  // Tests take single packages from the same archive with apt-get.
  mmdebstrap: { ...withHelpers('mmdebstrap', 'apt-get install mmdebstrap'), programs: ['mmdebstrap', 'apt-get'] },
  'ansible-playbook': withHelpers('ansible-playbook', 'apt-get install ansible-core'),
  promtool: program('promtool', "take /usr/bin/promtool out of Debian's package prometheus"),
  mandoc: program('mandoc', "take /usr/bin/mandoc out of Debian's package mandoc, which would replace man"),
  zsh: program('zsh', 'apt-get install zsh'),
  fish: program('fish', 'apt-get install fish'),
} as const satisfies Record<string, Requirement>;

/** A requirement by its name in `knownRequirements`, or one of the test's own. */
export type Needed = keyof typeof knownRequirements | Requirement;

/**
 * Gate of a test file: `describe.runIf(have('skopeo', 'root'))('…', …)`. Only now the test finds
 * these programs on PATH.
 *
 * @returns true when everything needed is there. Otherwise writes one line to stderr that names
 *   what is lacking and how to get it, and returns false, so that the tests are skipped.
 * @throws Error with that line when `CI=true`: there nothing may be skipped.
 */
export function have(...needed: readonly Needed[]): boolean {
  const missing = needed.map(resolve).filter((requirement) => {
    if (!requirement.isMet()) return true;
    for (const name of requirement.programs ?? []) addToPath(name, requirement.haveHelpers ?? false);
    return false;
  });
  if (missing.length === 0) return true;
  const list = missing.map(({ name, remedy }) => `${name} (${remedy})`).join(', ');
  const line = `The tests need what this machine lacks: ${list}`;
  if (process.env.CI === 'true') throw new Error(line);
  process.stderr.write(`${line}; skipped\n`);
  return false;
}

/**
 * A requirement that is met when the program is found on PATH or in the system directories that
 * hold root's programs.
 */
export function program(name: string, remedy: string): Requirement {
  return { name, isMet: () => programPath(name) !== undefined, remedy, programs: [name] };
}

/** A {@link program} that calls programs of packages that its own depends on. */
export function withHelpers(name: string, remedy: string): Requirement {
  return { ...program(name, remedy), haveHelpers: true };
}

/** The path of a program, or undefined. */
export function programPath(name: string): string | undefined {
  return machinePath()
    .split(delimiter)
    .filter((directory) => directory !== '')
    .map((directory) => join(directory, name))
    .find(existsSync);
}

/** PATH as the tests were started with, and where root's programs are. */
function machinePath(): string {
  return [process.env.STICKPIN_TEST_PATH ?? process.env.PATH, '/usr/sbin', '/sbin'].join(delimiter);
}

/** Adds a program to what the test finds. One with helpers gets the PATH of the machine. */
function addToPath(name: string, hasHelpers: boolean): void {
  const folder = process.env.STICKPIN_TEST_PROGRAMS;
  if (folder === undefined) return;
  const own = join(folder, String(process.pid));
  mkdirSync(own, { recursive: true });
  if (!process.env.PATH?.split(delimiter).includes(own)) process.env.PATH += `${delimiter}${own}`;
  const [path, link] = [programPath(name) ?? '', join(own, name)];
  const script = `#!/bin/sh\nexport PATH="$PATH:${machinePath()}"\nexec '${path}' "$@"\n`;
  if (existsSync(link)) return;
  if (hasHelpers) writeFileSync(link, script, { mode: 0o755 });
  else symlinkSync(path, link);
}

function resolve(needed: Needed): Requirement {
  return typeof needed === 'string' ? knownRequirements[needed] : needed;
}
