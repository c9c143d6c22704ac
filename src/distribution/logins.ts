import { readdir, readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import * as v from 'valibot';
import { bundleError } from '../bundle/bundle-error.ts';
import { parseJson } from '../bundle/format/json.ts';
import type { Reference } from '../domain/model/reference.ts';
import { reasonOf } from '../platform/app-error.ts';

const authSchema = v.looseObject({
  auths: v.exactOptional(v.record(v.string(), v.looseObject({ auth: v.exactOptional(v.string()) }))),
});

/** containers-auth.json(5): the longest name that is the repository or above it. */
export async function loginFor(
  { repository, registry }: Reference,
  authfile: string | undefined,
): Promise<string | undefined> {
  const { REGISTRY_AUTH_FILE, XDG_RUNTIME_DIR } = process.env;
  const given = authfile ?? REGISTRY_AUTH_FILE;
  const usual = [
    ...(XDG_RUNTIME_DIR === undefined ? [] : [join(XDG_RUNTIME_DIR, 'containers/auth.json')]),
    ...inHome('.config/containers/auth.json', '.docker/config.json'),
  ];
  for (const path of given === undefined ? usual : [given]) {
    const bytes = await (path === authfile ? readNamed(path) : readFile(path).catch(() => undefined));
    if (bytes === undefined) continue;
    const { auths = {} } = parseSecret(bytes, authSchema, path);
    const names = [repository, registry, ...(registry === 'docker.io' ? ['https://index.docker.io/v1/'] : [])];
    for (let name = repository; name.includes('/'); name = name.slice(0, name.lastIndexOf('/'))) names.push(name);
    names.sort((a, b) => b.length - a.length);
    const found = names.flatMap((name) => auths[name]?.auth ?? []);
    if (found[0] !== undefined) return found[0];
  }
  return undefined;
}

/** containers-certs.d(5). Undefined means those of the system. */
export async function certificatesOf(registry: string, file?: string): Promise<string[] | undefined> {
  if (file !== undefined) return [(await readNamed(file)).toString('utf8')];
  const found: string[] = [];
  for (const folder of ['/etc/containers/certs.d', '/etc/docker/certs.d', ...inHome('.config/containers/certs.d')]) {
    for (const name of await readdir(join(folder, registry)).catch(() => [])) {
      if (name.endsWith('.crt')) found.push(await readFile(join(folder, registry, name), 'utf8'));
    }
  }
  return found.length === 0 ? undefined : found;
}

/** `DynamicUser=` has no home, nor a name where nss-systemd is absent. */
function inHome(...paths: readonly string[]): string[] {
  try {
    return paths.map((path) => join(homedir(), path));
  } catch {
    return [];
  }
}

/** A named file must exist. @throws AppError `bundle/source` */
async function readNamed(path: string): Promise<Buffer> {
  return readFile(path).catch((cause: unknown) => {
    throw bundleError('bundle/source', `${path} can't be read: ${reasonOf(cause)}`, { cause });
  });
}

/** Says nothing of what is in it, as other messages do. @throws AppError `bundle/source` */
export function parseSecret<Schema extends v.GenericSchema>(
  bytes: Uint8Array,
  schema: Schema,
  what: string,
): v.InferOutput<Schema> {
  try {
    return parseJson(bytes, schema, what, 'bundle/source');
  } catch {
    throw bundleError('bundle/source', `${what} is not JSON of the form that it must have`);
  }
}

/** The file is read late. @throws AppError `bundle/option` */
export async function checkAccess({ authfile }: { readonly authfile?: string | undefined }): Promise<void> {
  if (authfile === undefined) return;
  const found = await stat(authfile).catch((cause: unknown) => {
    throw bundleError('bundle/option', `--authfile: ${authfile} can't be read: ${reasonOf(cause)}`, { cause });
  });
  if (found.isDirectory())
    throw bundleError('bundle/option', `--authfile: ${authfile} is a folder: name the file in it`);
}
