import { join } from 'node:path';
import { buildOnce, cachedPath } from './build-cache.ts';
import { debianMirror } from './debian-mirror.ts';
import { execute } from './execute.ts';

/** A root folder that the tests have: a release of Debian, or trixie with Cockpit or SELinux. */
export type Suite = Release | 'cockpit' | 'selinux';

type Release = 'trixie' | 'bookworm';

/** As Debian names it. */
const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';

const packages = [
  'systemd',
  'systemd-sysv',
  'udev',
  'dbus',
  'procps',
  `linux-image-${architecture}`,
  'busybox-static',
  'e2fsprogs',
  'qemu-guest-agent',
  'containerd',
  'iproute2',
];

/** What a root folder is made of. */
interface RootRecipe {
  readonly version: number;
  readonly suite: Release;
  readonly architecture: string;
  readonly packages: readonly string[];
  /** Packages that come from another release, with nothing else of it. */
  readonly newer?: { readonly suite: string; readonly packages: readonly string[] };
}

/** Which label SELinux gives to which file of a root folder with Debian's policy. */
export const FILE_CONTEXTS = '/etc/selinux/default/contexts/files/file_contexts';

/**
 * Its hash names the folder in the cache. Raise `version` when something else than the lists
 * changes how it is built.
 */
const recipes: Readonly<Record<Suite, RootRecipe>> = {
  trixie: { version: 2, suite: 'trixie', architecture, packages: [...packages, 'crun', 'rpm', 'skopeo'] },
  cockpit: {
    version: 1,
    suite: 'trixie',
    architecture,
    packages: [...packages, 'cockpit-ws', 'cockpit-bridge', 'cockpit-system', 'polkitd', 'sudo'],
  },
  selinux: {
    version: 1,
    suite: 'trixie',
    architecture,
    packages: [...packages, 'policycoreutils', 'selinux-policy-default'],
  },
  // Its own containerd is 1.6, which can't pin. That of trixie needs no newer glibc.
  bookworm: {
    version: 1,
    suite: 'bookworm',
    architecture,
    packages,
    newer: { suite: 'trixie', packages: ['containerd'] },
  },
};

/** A short name for the contents of a root folder, for the recipes of what is made from it. */
export function rootRecipe(suite: Suite): unknown {
  return recipes[suite];
}

/** Where the cache has the root folder of a release, built or not. */
export function cachedRoot(suite: Suite): string {
  return join(cachedPath(suite, recipes[suite]), 'root');
}

/**
 * The path of a Debian root folder, built with mmdebstrap when the cache lacks it (about 35 s).
 * Guests have it as their disk. Needs root. Never write to it.
 */
export async function debianRoot(suite: Suite): Promise<string> {
  const recipe = recipes[suite];
  return join(await buildOnce(suite, recipe, (directory) => buildRoot(directory, recipe)), 'root');
}

async function buildRoot(directory: string, { suite, packages, newer }: RootRecipe): Promise<void> {
  const mirror = await debianMirror();
  const root = join(directory, 'root');
  const suites = [suite, ...(newer ? [newer.suite] : [])];
  const argv = [
    'mmdebstrap',
    '--quiet',
    '--variant=minbase',
    `--architectures=${architecture}`,
    `--include=${packages.join(',')}`,
    ...(newer ? [`--setup-hook=${pinHook(newer)}`] : []),
    '--dpkgopt=path-exclude=/usr/share/doc/*',
    '--dpkgopt=path-exclude=/usr/share/man/*',
    '--dpkgopt=path-exclude=/usr/share/locale/*',
    '--aptopt=Acquire::Retries "5"',
    suite,
    root,
    '-',
  ];
  // The guest boots with an initrd of its own making, so the kernel's package needn't make one.
  await execute(argv, {
    input: suites.map((name) => `deb ${mirror} ${name} main\n`).join(''),
    env: { ...process.env, INITRD: 'No' },
  });
  if (packages.includes('selinux-policy-default')) {
    await execute(['chroot', root, 'setfiles', '-mFT0', FILE_CONTEXTS, '/']);
  }
}

/** A shell command that has apt take nothing but these packages from the newer release. */
function pinHook({ suite, packages }: NonNullable<RootRecipe['newer']>): string {
  const pin = (names: string, priority: number) =>
    `Package: ${names}\\nPin: release n=${suite}\\nPin-Priority: ${priority}\\n\\n`;
  const preferences = `${pin(packages.join(' '), 990)}${pin('*', -1)}`;
  return `printf '${preferences}' > "$1/etc/apt/preferences.d/newer"`;
}
