import { isAbsolute, join } from 'node:path';
import { mirrorPathOf } from '../../domain/model/mirror-path.ts';
import { isTable, type TomlTable } from '../config/config-file.ts';
import { type MirrorAddress, mirrorBaseUrl } from '../config/mirror-address.ts';
import { tomlString, tomlTableLines } from '../config/toml-text.ts';

/** What a `hosts.toml` of ours says. */
export interface HostsToml {
  /** Host and port as images name it: `quay.io`, `localhost:5000`. */
  readonly registry: string;
  /**
   * Repositories of that registry which are to be pulled, as `quay.io/coreos/etcd`. containerd's
   * mirrors know no repositories: this is for us to read.
   */
  readonly repositories: readonly string[];
  /** Whether the directory it lies in was made for it. */
  readonly madeDirectory: boolean;
}

const TITLE = "# Written by stickpin while images are loaded from a bundle, and taken away when they are. Don't edit.";
const KEPT =
  '# A file that was here before is put back then; until then its content stands behind our mirror, and itself beside this one.';
const FACTS = '# stickpin: ';

/**
 * The text of `certs.d/<registry>/hosts.toml` (containerd's docs/hosts.md, docs/runtime-facts.md,
 * docs/runtime-facts.md, fact 21): our registry first, then what holds otherwise. `configured` is
 * the user's own table for this registry, if any; without `server` in it containerd goes on to the
 * registry itself.
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

/**
 * What a `hosts.toml` of ours says, and whether it points to `address`. Undefined when the file
 * isn't ours: one without our title is the user's.
 */
export function parseHostsToml(
  text: string,
  address: MirrorAddress,
): (HostsToml & { readonly current: boolean }) | undefined {
  const [title, , facts = ''] = text.split('\n', 3);
  if (title !== TITLE) return undefined;
  const content = factsOf(facts.slice(FACTS.length));
  if (content === undefined) return undefined;
  return { ...content, current: text.includes(`\n[host.${tomlString(hostUrl(content.registry, address))}]\n`) };
}

/**
 * A user's table as it must read from another directory: relative paths of `ca` and `client` made
 * absolute, in the root and in every host.
 */
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

/**
 * The host under which containerd asks our registry: what follows in a request's path is the
 * repository without its registry.
 */
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
