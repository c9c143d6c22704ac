import { dirname, resolve } from 'node:path';
import * as v from 'valibot';
import { parse } from 'yaml';
import { reasonOf } from '../../platform/app-error.ts';
import { fleetError } from '../fleet-error.ts';

/** PEM text, or the file that has it. */
export type PemSource = { readonly file: string } | { readonly pem: string };

/** The certificate and the key with which a kubeconfig signs in. */
export interface ClientKeyPair {
  readonly certificate: PemSource;
  readonly key: PemSource;
}

const user = v.object({
  'client-certificate': v.optional(v.string()),
  'client-certificate-data': v.optional(v.string()),
  'client-key': v.optional(v.string()),
  'client-key-data': v.optional(v.string()),
});

const kubeconfig = v.object({
  kind: v.literal('Config'),
  'current-context': v.optional(v.string()),
  contexts: v.optional(v.array(v.object({ name: v.string(), context: v.object({ user: v.string() }) })), []),
  users: v.optional(v.array(v.object({ name: v.string(), user: v.nullish(user) })), []),
});

/**
 * Reads the key pair of the current context (kubernetes.io, "Organizing Cluster Access Using
 * kubeconfig Files"). `…-data` wins over a file, and a relative path begins at the kubeconfig.
 *
 * @param path of the kubeconfig, for messages and relative paths
 * @returns undefined when the user signs in with something else than a certificate
 * @throws AppError `fleet/identity`
 */
export function keyPairOf(text: string, path: string): ClientKeyPair | undefined {
  const result = v.safeParse(kubeconfig, parseYaml(text, path));
  if (!result.success) {
    throw fleetError('fleet/identity', `${path} is no kubeconfig; set fleet.kubeconfig to that of the kubelet`);
  }
  const { contexts, users, 'current-context': current } = result.output;
  const context = contexts.find(({ name }) => name === current) ?? contexts[0];
  const named = users.find(({ name }) => name === context?.context.user) ?? users[0];
  const certificate = pemOf(named?.user?.['client-certificate-data'], named?.user?.['client-certificate'], path);
  const key = pemOf(named?.user?.['client-key-data'], named?.user?.['client-key'], path);
  return certificate && key && { certificate, key };
}

function pemOf(data: string | undefined, file: string | undefined, path: string): PemSource | undefined {
  if (data !== undefined && data !== '') return { pem: Buffer.from(data, 'base64').toString('utf8') };
  return file === undefined || file === '' ? undefined : { file: resolve(dirname(path), file) };
}

const kubeletConfiguration = v.object({
  kind: v.literal('KubeletConfiguration'),
  authentication: v.optional(v.object({ x509: v.optional(v.object({ clientCAFile: v.optional(v.string()) })) })),
});

/**
 * `authentication.x509.clientCAFile` of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1);
 * undefined where it is not set, and for any other file.
 *
 * @throws AppError `fleet/identity` when it is no YAML
 */
export function clientCaFileOf(text: string, path: string): string | undefined {
  const result = v.safeParse(kubeletConfiguration, parseYaml(text, path));
  const file = result.success ? result.output.authentication?.x509?.clientCAFile : undefined;
  return file === undefined || file === '' ? undefined : resolve(dirname(path), file);
}

function parseYaml(text: string, path: string): unknown {
  try {
    return parse(text, { maxAliasCount: 0 });
  } catch (error) {
    throw fleetError('fleet/identity', `${path} is not YAML: ${reasonOf(error)}`, { cause: error });
  }
}
