import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import * as v from 'valibot';
import { parse } from 'yaml';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { nodeOf } from '../identity/check-peer.ts';
import { DISTRIBUTIONS } from '../identity/distributions.ts';
import { type KubernetesError, kubernetesError } from './api-error.ts';

/** How to reach the Kubernetes API, and as whom. Certificates and keys are PEM. */
export interface Credentials {
  /** The kubeconfig. */
  readonly path: string;
  /** `https://10.0.0.1:6443`, with no slash at its end. */
  readonly server: string;
  /** The name that the server's certificate must have, where it is not that of `server`. */
  readonly serverName?: string;
  /** The authorities that may sign the server's certificate; absent: those of the system. */
  readonly ca?: string;
  /** The server's certificate is not checked. */
  readonly isUnverified: boolean;
  readonly certificate?: string;
  readonly key?: string;
  readonly token?: string;
  /** The name of the own Node, from the subject of the certificate; absent when it is not a kubelet's. */
  readonly nodeName?: string;
}

const KUBECONFIGS = DISTRIBUTIONS.map(({ kubeconfig }) => kubeconfig);

const text = v.pipe(v.string(), v.minLength(1));
const named = <Name extends string, Schema extends v.GenericSchema>(name: Name, schema: Schema) =>
  v.array(v.object({ name: text, [name]: schema } as { name: typeof text } & Record<Name, Schema>));

/** The parts of `Config` (v1 of client-go's `clientcmd`) that a kubelet's kubeconfig has. */
const kubeconfig = v.object({
  'current-context': text,
  contexts: named('context', v.object({ cluster: text, user: text })),
  clusters: named(
    'cluster',
    v.object({
      server: v.pipe(text, v.url(), v.startsWith('https://', 'must begin with https://')),
      'certificate-authority': v.optional(text),
      'certificate-authority-data': v.optional(text),
      'insecure-skip-tls-verify': v.optional(v.boolean(), false),
      'tls-server-name': v.optional(text),
      'proxy-url': v.optional(text),
    }),
  ),
  users: named(
    'user',
    v.object({
      'client-certificate': v.optional(text),
      'client-certificate-data': v.optional(text),
      'client-key': v.optional(text),
      'client-key-data': v.optional(text),
      token: v.optional(text),
      tokenFile: v.optional(text),
    }),
  ),
});

type Kubeconfig = v.InferOutput<typeof kubeconfig>;
type ClusterEntry = Kubeconfig['clusters'][number]['cluster'];
type UserEntry = Kubeconfig['users'][number]['user'];

/**
 * The kubeconfig of the kubelet with the files that it names, as they are now: the kubelet replaces
 * its certificate while it runs.
 *
 * @param setting `fleet.kubeconfig`
 * @param root put before the paths of `auto`; for tests
 * @throws KubernetesError `kubernetes/kubeconfig`
 */
export async function readCredentials(setting: 'auto' | string, signal: AbortSignal, root = '/'): Promise<Credentials> {
  const { path, content } = await readKubeconfig(setting, root, signal);
  const { cluster, user } = currentEntries(path, parseKubeconfig(path, content));
  if (cluster['proxy-url'] !== undefined) throw unusable(path, 'it has a proxy-url, which stickpin does not use');
  const pem = (data: string | undefined, file: string | undefined) => inlineOrFile(path, data, file, signal);
  const ca = await pem(cluster['certificate-authority-data'], cluster['certificate-authority']);
  const certificate = await pem(user['client-certificate-data'], user['client-certificate']);
  const key = await pem(user['client-key-data'], user['client-key']);
  const token = user.token ?? (await inlineOrFile(path, undefined, user.tokenFile, signal))?.trim();
  if ((certificate === undefined || key === undefined) && token === undefined) {
    throw unusable(path, 'its user has neither a client certificate with a key nor a token');
  }
  const nodeName = certificate === undefined ? undefined : nodeNameOf(path, certificate);
  return {
    path,
    server: cluster.server.replace(/\/+$/, ''),
    isUnverified: cluster['insecure-skip-tls-verify'],
    ...(cluster['tls-server-name'] !== undefined && { serverName: cluster['tls-server-name'] }),
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && key !== undefined && { certificate, key }),
    ...(token !== undefined && { token }),
    ...(nodeName !== undefined && { nodeName }),
  };
}

async function readKubeconfig(
  setting: string,
  root: string,
  signal: AbortSignal,
): Promise<{ readonly path: string; readonly content: string }> {
  const paths = setting === 'auto' ? KUBECONFIGS.map((path) => join(root, path)) : [setting];
  for (const path of paths) {
    try {
      return { path, content: await readFile(path, { encoding: 'utf8', signal }) };
    } catch (error) {
      signal.throwIfAborted();
      if (systemCodeOf(error) !== 'ENOENT' && systemCodeOf(error) !== 'ENOTDIR') throw unreadable(path, error);
    }
  }
  const looked = setting === 'auto' ? `looked at ${KUBECONFIGS.join(', ')}` : `${setting} does not exist`;
  const message = `No kubeconfig of the kubelet was found: ${looked}. Name it in fleet.kubeconfig`;
  throw kubernetesError('kubernetes/kubeconfig', message);
}

function parseKubeconfig(path: string, content: string): Kubeconfig {
  let document: unknown;
  try {
    document = parse(content);
  } catch (error) {
    throw unusable(path, oneLine(reasonOf(error)), error);
  }
  const result = v.safeParse(kubeconfig, document);
  if (result.success) return result.output;
  const [issue] = result.issues;
  throw unusable(path, `${v.getDotPath(issue) ?? 'the file'}: ${oneLine(issue.message)}`);
}

function currentEntries(
  path: string,
  config: Kubeconfig,
): { readonly cluster: ClusterEntry; readonly user: UserEntry } {
  const name = config['current-context'];
  const context = config.contexts.find((entry) => entry.name === name)?.context;
  const cluster = config.clusters.find((entry) => entry.name === context?.cluster)?.cluster;
  const user = config.users.find((entry) => entry.name === context?.user)?.user;
  if (cluster === undefined || user === undefined) {
    throw unusable(path, `context '${name}', or the cluster or user of it, is not in it`);
  }
  return { cluster, user };
}

/** Inline data wins over a file, as in client-go. Relative paths start at the kubeconfig. */
async function inlineOrFile(
  path: string,
  data: string | undefined,
  file: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, 'base64').toString('utf8');
  if (file === undefined) return undefined;
  const named = resolve(dirname(path), file);
  try {
    return await readFile(named, { encoding: 'utf8', signal });
  } catch (error) {
    signal.throwIfAborted();
    throw unreadable(named, error);
  }
}

/** Undefined for the certificate of somebody else than a kubelet. */
function nodeNameOf(path: string, certificate: string): string | undefined {
  try {
    return nodeOf(new X509Certificate(certificate));
  } catch (error) {
    throw unusable(path, `its client certificate can't be read: ${oneLine(reasonOf(error))}`, error);
  }
}

function unusable(path: string, why: string, cause?: unknown): KubernetesError {
  return kubernetesError('kubernetes/kubeconfig', `${path} can't be used as a kubeconfig: ${why}`, { cause });
}

function unreadable(path: string, cause: unknown): KubernetesError {
  return kubernetesError('kubernetes/kubeconfig', `${path} can't be read: ${oneLine(reasonOf(cause))}`, { cause });
}
