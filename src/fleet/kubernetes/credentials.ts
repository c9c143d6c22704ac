import { X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { nodeOf } from '../identity/identity.ts';
import {
  distributionOf,
  KUBECONFIGS,
  type Kubeconfig,
  type PemSource,
  parseKubeconfig,
} from '../identity/kubelet-files.ts';
import { type Credentials, type KubernetesError, kubernetesError } from './api.ts';

/**
 * The kubelet's kubeconfig with its files as they are now: the kubelet replaces its certificate
 * while it runs.
 *
 * @param setting `fleet.kubeconfig`
 * @param root before the paths of `auto`; for tests
 * @throws KubernetesError `kubernetes/kubeconfig`
 */
export async function readCredentials(setting: 'auto' | string, signal: AbortSignal, root = '/'): Promise<Credentials> {
  const { path, content } = await readKubeconfig(setting, root, signal);
  const parsed = parseKubeconfig(content, path);
  if (parsed.kind === 'unusable') throw unusable(path, parsed.why);
  const { cluster, user } = parsed.kubeconfig;
  if (cluster.proxyUrl !== undefined) throw unusable(path, 'it has a proxy-url, which stickpin does not use');
  const ca = await textOf(cluster.authority, signal);
  const certificate = await textOf(user.certificate, signal);
  const key = await textOf(user.key, signal);
  const token = await tokenOf(user, signal);
  if ((certificate === undefined || key === undefined) && token === undefined) {
    const { program } = user;
    const way = program === undefined ? '' : `; it has ${program}, and stickpin runs no program for credentials`;
    throw unusable(path, `its user has neither a client certificate with a key nor a token${way}`);
  }
  const nodeName = certificate === undefined ? undefined : nodeNameOf(path, certificate);
  const { serverName, isUnverified } = cluster;
  const pair = certificate !== undefined && key !== undefined ? { certificate, key } : {};
  const server = cluster.server.replace(/\/+$/, '');
  return { ...defined({ path, server, isUnverified, serverName, ca, token, nodeName }), ...pair };
}

async function readKubeconfig(
  setting: string,
  root: string,
  signal: AbortSignal,
): Promise<{ readonly path: string; readonly content: string }> {
  const isPresent = (path: string) =>
    stat(join(root, path)).then(
      () => true,
      (error) => !isAbsent(error),
    );
  const known = await distributionOf(setting, isPresent);
  const path = setting === 'auto' ? known && join(root, known.kubeconfig) : setting;
  try {
    if (path !== undefined) return { path, content: await readFile(path, { encoding: 'utf8', signal }) };
  } catch (error) {
    signal.throwIfAborted();
    if (!isAbsent(error)) throw unreadable(path ?? setting, error);
  }
  const searched = setting === 'auto' ? `looked at ${KUBECONFIGS.join(', ')}` : `${setting} does not exist`;
  const message = `No kubeconfig of the kubelet was found: ${searched}. Name it in fleet.kubeconfig`;
  throw kubernetesError('kubernetes/kubeconfig', message);
}

/** Another error is one of a file that is there. */
function isAbsent(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '');
}

async function textOf(source: PemSource | undefined, signal: AbortSignal): Promise<string | undefined> {
  if (source === undefined) return undefined;
  if ('pem' in source) return source.pem;
  try {
    return await readFile(source.file, { encoding: 'utf8', signal });
  } catch (error) {
    signal.throwIfAborted();
    throw unreadable(source.file, error);
  }
}

/** A readable file wins, since its token is renewed (client-go, `rest.Config`). */
async function tokenOf({ token, tokenFile }: Kubeconfig['user'], signal: AbortSignal): Promise<string | undefined> {
  if (tokenFile === undefined) return token;
  try {
    return (await textOf({ file: tokenFile }, signal))?.trim();
  } catch (error) {
    signal.throwIfAborted();
    if (token === undefined) throw error;
    return token;
  }
}

/** Undefined for any other certificate than a kubelet's. */
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
