import { dirname, resolve } from 'node:path';
import * as v from 'valibot';
import { parse } from 'yaml';
import { reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { schemaFault } from '../../platform/schema-fault.ts';
import { fleetError } from '../trouble.ts';

export type PemSource = { readonly file: string } | { readonly pem: string };

/** Of the current context. */
export interface Kubeconfig {
  readonly cluster: {
    /** Begins with `https://`. */
    readonly server: string;
    readonly authority?: PemSource;
    readonly isUnverified: boolean;
    readonly serverName?: string;
    readonly proxyUrl?: string;
  };
  readonly user: {
    readonly certificate?: PemSource;
    readonly key?: PemSource;
    readonly token?: string;
    readonly tokenFile?: string;
    /** A program gives credentials, by `exec` or `auth-provider`. */
    readonly program?: 'exec' | 'auth-provider';
  };
}

type ParsedKubeconfig =
  | { readonly kind: 'kubeconfig'; readonly kubeconfig: Kubeconfig }
  | { readonly kind: 'unusable'; readonly why: string; readonly cause?: unknown };

const text = v.pipe(v.string(), v.minLength(1));
/** client-go takes an empty text for an absent one. */
const optionalText = v.nullish(v.string());
const named = <Name extends string, Schema extends v.GenericSchema>(name: Name, schema: Schema) =>
  v.array(v.object({ name: text, [name]: schema } as { name: typeof text } & Record<Name, Schema>));

/** The part of `Config` (v1 of client-go's `clientcmd`) that kubelets use. */
const config = v.object({
  kind: v.optional(v.literal('Config')),
  'current-context': text,
  contexts: named('context', v.object({ cluster: text, user: text })),
  clusters: named(
    'cluster',
    v.object({
      server: v.pipe(text, v.url(), v.startsWith('https://', 'must begin with https://')),
      'certificate-authority': optionalText,
      'certificate-authority-data': optionalText,
      'insecure-skip-tls-verify': v.nullish(v.boolean(), false),
      'tls-server-name': optionalText,
      'proxy-url': optionalText,
    }),
  ),
  users: named(
    'user',
    v.nullish(
      v.object({
        'client-certificate': optionalText,
        'client-certificate-data': optionalText,
        'client-key': optionalText,
        'client-key-data': optionalText,
        token: optionalText,
        tokenFile: optionalText,
        exec: v.nullish(v.unknown()),
        'auth-provider': v.nullish(v.unknown()),
      }),
      {},
    ),
  ),
});

/**
 * Reads the current context (kubernetes.io, "Organizing Cluster Access Using kubeconfig Files"). As
 * in client-go, `…-data` wins over a file, and relative paths begin at the kubeconfig.
 */
export function parseKubeconfig(content: string, path: string): ParsedKubeconfig {
  let document: unknown;
  try {
    document = parse(content, { maxAliasCount: 0 });
  } catch (cause) {
    return { kind: 'unusable', why: oneLine(reasonOf(cause)), cause };
  }
  const result = v.safeParse(config, document);
  if (!result.success) {
    const [issue] = result.issues;
    return { kind: 'unusable', why: `${v.getDotPath(issue) ?? 'the file'}: ${oneLine(schemaFault(issue))}` };
  }
  const { contexts, clusters, users, 'current-context': current } = result.output;
  const context = contexts.find(({ name }) => name === current)?.context;
  const cluster = clusters.find(({ name }) => name === context?.cluster)?.cluster;
  const user = users.find(({ name }) => name === context?.user)?.user;
  if (cluster === undefined || user === undefined) {
    return { kind: 'unusable', why: `context '${current}', or the cluster or user of it, is not in it` };
  }
  return {
    kind: 'kubeconfig',
    kubeconfig: {
      cluster: {
        server: cluster.server,
        isUnverified: cluster['insecure-skip-tls-verify'],
        ...pemOf('authority', cluster['certificate-authority-data'], cluster['certificate-authority'], path),
        ...textOf('serverName', cluster['tls-server-name']),
        ...textOf('proxyUrl', cluster['proxy-url']),
      },
      user: {
        ...pemOf('certificate', user['client-certificate-data'], user['client-certificate'], path),
        ...pemOf('key', user['client-key-data'], user['client-key'], path),
        ...textOf('token', user.token),
        ...textOf('tokenFile', user.tokenFile && resolve(dirname(path), user.tokenFile)),
        ...(user['auth-provider'] != null && { program: 'auth-provider' as const }),
        ...(user.exec != null && { program: 'exec' as const }),
      },
    },
  };
}

type MaybeText = string | null | undefined;

function pemOf<Name extends string>(name: Name, data: MaybeText, file: MaybeText, path: string) {
  const source: PemSource | undefined = data
    ? { pem: Buffer.from(data, 'base64').toString('utf8') }
    : file
      ? { file: resolve(dirname(path), file) }
      : undefined;
  return (source && { [name]: source }) as { readonly [key in Name]?: PemSource } | undefined;
}

function textOf<Name extends string>(name: Name, value: MaybeText) {
  return (value ? { [name]: value } : undefined) as { readonly [key in Name]?: string } | undefined;
}

const kubeletConfiguration = v.object({
  kind: v.literal('KubeletConfiguration'),
  authentication: v.optional(v.object({ x509: v.optional(v.object({ clientCAFile: v.optional(v.string()) })) })),
});

/**
 * `authentication.x509.clientCAFile` of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1);
 * undefined for any other file.
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
