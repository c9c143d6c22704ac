import { isAbsolute, join } from 'node:path';
import { mirrorPathOf } from '../../domain/model/reference.ts';
import { isTable, type TomlTable } from '../config/config-file.ts';
import { type MirrorAddress, mirrorBaseUrl, tomlString, tomlTableLines } from '../config/toml-text.ts';

export interface HostsToml {
  /** The name in images: `quay.io`, `localhost:5000`. */
  readonly registry: string;
  /** Only stickpin reads them, because containerd's mirrors are not per repository. */
  readonly repositories: readonly string[];
  /** Whether stickpin made its directory. */
  readonly madeDirectory: boolean;
}

const TITLE = "# Written by stickpin for the images of bundles, and taken away with them. Don't edit.";
/** All versions have this title. */
const TITLE_START = '# Written by stickpin ';
const KEPT =
  '# A file that was here before is put back then; until then its content stands behind our mirror, and itself beside this one.';
const FACTS = '# stickpin: ';

/**
 * The text of `certs.d/<registry>/hosts.toml` (containerd's docs/hosts.md; docs/runtime-facts.md,
 * fact 21): our registry, then the user's configuration. If that has no `server`, containerd tries
 * the registry itself last.
 */
export function renderHostsToml(content: HostsToml, address: MirrorAddress, configured: TomlTable = {}): string {
  const { host, ...root } = configured;
  const { header, ...values } = root;
  const ours = hostUrl(content.registry, address);
  const others = isTable(host) ? Object.fromEntries(Object.entries(host).filter(([url]) => url !== ours)) : {};
  const facts = JSON.stringify({ ...content, repositories: [...new Set(content.repositories)].sort() });
  const lines = [
    TITLE,
    KEPT,
    `${FACTS}${facts}`,
    '',
    ...tomlTableLines(values),
    '',
    // containerd tries hosts in the order of their lines.
    `[host.${tomlString(ours)}]`,
    'capabilities = ["pull", "resolve"]',
    'override_path = true',
    ...(Object.keys(others).length === 0 ? [] : tomlTableLines({ host: others }).filter((line) => line !== '[host]')),
    ...(header === undefined ? [] : tomlTableLines({ header })),
  ];
  return `${lines.join('\n').replace(/\n{3,}/g, '\n\n')}\n`;
}

/** Returns undefined for a file without our title, which belongs to the user. */
export function parseHostsToml(
  text: string,
  address: MirrorAddress,
): (HostsToml & { readonly current: boolean }) | undefined {
  const content = readHostsToml(text);
  if (content === undefined) return undefined;
  return { ...content, current: text.includes(`\n[host.${tomlString(hostUrl(content.registry, address))}]\n`) };
}

/** Accepts any address. */
export function readHostsToml(text: string): HostsToml | undefined {
  const [title, , facts = ''] = text.split('\n', 3);
  return title?.startsWith(TITLE_START) === true ? factsOf(facts.slice(FACTS.length)) : undefined;
}

/** Makes relative paths of `ca` and `client` absolute. */
export function withAbsolutePaths(table: TomlTable, directory: string): TomlTable {
  const absolute = (value: unknown): unknown => {
    if (typeof value === 'string') return isAbsolute(value) ? value : join(directory, value);
    return Array.isArray(value) ? value.map(absolute) : value;
  };
  const mapped = Object.entries(table).map(([key, value]) => {
    if (key === 'ca' || key === 'client') return [key, absolute(value)];
    if (key !== 'host' || !isTable(value)) return [key, value];
    const hosts = Object.entries(value).map(([url, host]) => [
      url,
      isTable(host) ? withAbsolutePaths(host, directory) : host,
    ]);
    return [key, Object.fromEntries(hosts)];
  });
  return Object.fromEntries(mapped);
}

/** containerd appends the repository without its registry to this path. */
function hostUrl(registry: string, address: MirrorAddress): string {
  return `${mirrorBaseUrl(address)}/${mirrorPathOf(`${registry}/`).slice(0, -1)}`;
}

function factsOf(json: string): HostsToml | undefined {
  try {
    const { registry, repositories, madeDirectory } = JSON.parse(json) as Partial<HostsToml>;
    if (typeof registry !== 'string' || !Array.isArray(repositories)) return undefined;
    return { registry, repositories, madeDirectory: madeDirectory === true };
  } catch {
    return undefined;
  }
}
