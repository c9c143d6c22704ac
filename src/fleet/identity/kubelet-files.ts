import { constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import * as v from 'valibot';
import { parse } from 'yaml';
import type { Settings } from '../../domain/settings/settings.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { schemaFault } from '../../platform/schema-fault.ts';
import { fleetError } from '../trouble.ts';

/** Both texts are PEM. */
export interface IdentityText {
  /** The node's certificate, then those up to its authority. */
  readonly certificate: string;
  readonly key: string;
  /** They sign the certificates of kubelets. */
  readonly authorities: string;
  /** For messages. */
  readonly certificateFrom: string;
  readonly authoritiesFrom: string;
  /** A change of one of them is a change of the identity. */
  readonly files: readonly string[];
}

export type IdentitySettings = Pick<Settings['fleet'], 'kubeconfig' | 'client_ca'> &
  Partial<Pick<Settings['fleet'], 'exclude'>>;

/** Most bytes of any of the files: a bundle of authorities has some 10 KiB. */
const FILE_BYTES = 1024 * 1024;

/**
 * Finds and reads the files of the kubelet.
 *
 * @param root for tests; default `/`
 * @throws AppError `fleet/identity`: which file is missing or can't be used
 */
export async function findIdentity(
  { kubeconfig, client_ca }: IdentitySettings,
  signal: AbortSignal,
  root = '',
): Promise<IdentityText> {
  const reader = new Reader(root, signal);
  const distribution = await distributionOf(kubeconfig, (path) => reader.isPresent(path));
  const pair = await keyPair(kubeconfig === 'auto' ? distribution?.kubeconfig : kubeconfig, reader);
  const caFile = client_ca === 'auto' ? await clientCa(distribution, reader) : client_ca;
  return {
    certificate: await pemText(pair.certificate, reader),
    key: await pemText(pair.key, reader),
    authorities: await reader.text(caFile),
    certificateFrom: 'file' in pair.certificate ? pair.certificate.file : `${distribution?.kubeconfig ?? kubeconfig}`,
    authoritiesFrom: caFile,
    files: reader.files,
  };
}

/** Remembers which files it has read. */
class Reader {
  readonly files: string[] = [];

  constructor(
    private readonly root: string,
    private readonly signal: AbortSignal,
  ) {}

  /** @throws AppError `fleet/identity` */
  async text(path: string): Promise<string> {
    this.signal.throwIfAborted();
    this.files.push(`${this.root}${path}`);
    return readSmallFile(`${this.root}${path}`);
  }

  isPresent(path: string): Promise<boolean> {
    return stat(`${this.root}${path}`).then(
      () => true,
      () => false,
    );
  }
}

/** @param mayOthersWrite also users and groups other than root and our own */
export async function readSmallFile(path: string, { mayOthersWrite = true } = {}): Promise<string> {
  try {
    const file = await open(path, constants.O_NONBLOCK);
    try {
      const { size, mode, uid } = await file.stat();
      if (!mayOthersWrite && ((mode & 0o022) !== 0 || ![0, process.geteuid?.()].includes(uid))) {
        throw fleetError(
          'fleet/identity',
          `others than root may write it: run 'chown root ${path}; chmod 0644 ${path}'`,
        );
      }
      if (size > FILE_BYTES) throw fleetError('fleet/identity', `${path} has ${size} bytes, and should have some KiB`);
      return await file.readFile('utf8');
    } finally {
      await file.close();
    }
  } catch (error) {
    const why = systemCodeOf(error) === 'ENOENT' ? 'is not there' : `can't be read: ${reasonOf(error)}`;
    throw fleetError('fleet/identity', `${path} ${why}`, { cause: error });
  }
}

/**
 * With a kubeconfig that is named, or the first one that is there.
 *
 * @param kubeconfig `fleet.kubeconfig`
 */
export async function distributionOf(
  kubeconfig: 'auto' | string,
  isPresent: (path: string) => Promise<boolean>,
): Promise<Distribution | undefined> {
  for (const distribution of DISTRIBUTIONS) {
    if (kubeconfig === distribution.kubeconfig) return distribution;
    if (kubeconfig === 'auto' && (await isPresent(distribution.kubeconfig))) return distribution;
  }
  return undefined;
}

interface ClientKeyPair {
  readonly certificate: PemSource;
  readonly key: PemSource;
}

/** The kubeconfig may have it. Default: the kubelet's own file. */
async function keyPair(kubeconfig: string | undefined, reader: Reader): Promise<ClientKeyPair> {
  const pair = kubeconfig === undefined ? undefined : keyPairOf(await reader.text(kubeconfig), kubeconfig);
  if (pair !== undefined) return pair;
  if (await reader.isPresent(KUBELET_CERTIFICATE)) {
    return { certificate: { file: KUBELET_CERTIFICATE }, key: { file: KUBELET_CERTIFICATE } };
  }
  const searched = kubeconfig ?? KUBECONFIGS.join(', ');
  const message = `no client certificate of a kubelet was found in ${searched}, and ${KUBELET_CERTIFICATE} is not there; set fleet.kubeconfig`;
  throw fleetError('fleet/identity', message, { disposition: 'wait' });
}

/** Undefined when the user has no certificate. */
function keyPairOf(text: string, path: string): ClientKeyPair | undefined {
  const parsed = parseKubeconfig(text, path);
  if (parsed.kind === 'unusable') {
    const message = `${path} can't be used as a kubeconfig: ${parsed.why}; set fleet.kubeconfig to that of the kubelet`;
    throw fleetError('fleet/identity', message);
  }
  const { certificate, key } = parsed.kubeconfig.user;
  return certificate && key && { certificate, key };
}

async function clientCa(distribution: Distribution | undefined, reader: Reader): Promise<string> {
  const { kubeletConfigs, clientCa: usual } = distribution ?? {
    kubeletConfigs: DISTRIBUTIONS.flatMap((known) => known.kubeletConfigs),
    clientCa: undefined,
  };
  for (const path of kubeletConfigs) {
    if (!(await reader.isPresent(path))) continue;
    const file = clientCaFileOf(await reader.text(path), path);
    if (file !== undefined) return file;
  }
  if (usual !== undefined) return usual;
  throw fleetError('fleet/identity', 'the clientCAFile of the kubelet was not found; set fleet.client_ca', {
    disposition: 'wait',
  });
}

async function pemText(source: PemSource, reader: Reader): Promise<string> {
  return 'pem' in source ? source.pem : reader.text(source.file);
}

/** Where a distribution of Kubernetes keeps the kubelet's files. */
interface Distribution {
  readonly kubeconfig: string;
  /** `KubeletConfiguration`: the last one with a `clientCAFile` counts. */
  readonly kubeletConfigs: readonly string[];
  /** The usual `clientCAFile`, where the kubelet gets it in another way. */
  readonly clientCa: string;
}

/**
 * In the order of the search. k3s and RKE2 have files of kubelet settings from 1.32 on, and only
 * arguments before.
 */
const DISTRIBUTIONS: readonly Distribution[] = [
  {
    kubeconfig: '/var/lib/kubelet/kubeconfig',
    kubeletConfigs: ['/etc/kubernetes/kubelet.conf'],
    clientCa: '/etc/kubernetes/kubelet-ca.crt',
  },
  {
    kubeconfig: '/var/lib/rancher/k3s/agent/kubelet.kubeconfig',
    kubeletConfigs: ['/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf'],
    clientCa: '/var/lib/rancher/k3s/agent/client-ca.crt',
  },
  {
    kubeconfig: '/var/lib/rancher/rke2/agent/kubelet.kubeconfig',
    kubeletConfigs: ['/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf'],
    clientCa: '/var/lib/rancher/rke2/agent/client-ca.crt',
  },
  {
    kubeconfig: '/var/snap/microk8s/current/credentials/kubelet.config',
    kubeletConfigs: [],
    clientCa: '/var/snap/microk8s/current/certs/ca.crt',
  },
  {
    kubeconfig: '/var/lib/k0s/kubelet.conf',
    kubeletConfigs: ['/var/lib/k0s/kubelet-config.yaml'],
    clientCa: '/var/lib/k0s/pki/ca.crt',
  },
  {
    kubeconfig: '/etc/kubernetes/kubelet.conf',
    kubeletConfigs: ['/var/lib/kubelet/config.yaml'],
    clientCa: '/etc/kubernetes/pki/ca.crt',
  },
];

export const KUBECONFIGS: readonly string[] = DISTRIBUTIONS.map(({ kubeconfig }) => kubeconfig);

/** A kubelet rotates this certificate with its key in the same file. */
const KUBELET_CERTIFICATE = '/var/lib/kubelet/pki/kubelet-client-current.pem';

export type PemSource = { readonly file: string } | { readonly pem: string };

/** What the current context names. */
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
  | { readonly kind: 'unusable'; readonly why: string };

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
    document = parse(content, { maxAliasCount: 0, logLevel: 'error' });
  } catch (cause) {
    return { kind: 'unusable', why: yamlFault(cause) };
  }
  const result = v.safeParse(config, document);
  if (!result.success) {
    const [issue] = result.issues;
    const fault = oneLine(schemaFault(issue, { isSecret: true }));
    return { kind: 'unusable', why: `${v.getDotPath(issue) ?? 'the file'}: ${fault}` };
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
      cluster: defined({
        server: cluster.server,
        isUnverified: cluster['insecure-skip-tls-verify'],
        authority: pemOf(cluster['certificate-authority-data'], cluster['certificate-authority'], path),
        serverName: cluster['tls-server-name'] || undefined,
        proxyUrl: cluster['proxy-url'] || undefined,
      }),
      user: defined({
        certificate: pemOf(user['client-certificate-data'], user['client-certificate'], path),
        key: pemOf(user['client-key-data'], user['client-key'], path),
        token: user.token || undefined,
        tokenFile: user.tokenFile ? resolve(dirname(path), user.tokenFile) : undefined,
        program: user.exec != null ? 'exec' : user['auth-provider'] != null ? 'auth-provider' : undefined,
      }),
    },
  };
}

type MaybeText = string | null | undefined;

function pemOf(data: MaybeText, file: MaybeText, path: string): PemSource | undefined {
  if (data) return { pem: Buffer.from(data, 'base64').toString('utf8') };
  return file ? { file: resolve(dirname(path), file) } : undefined;
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
function clientCaFileOf(text: string, path: string): string | undefined {
  const result = v.safeParse(kubeletConfiguration, parseYaml(text, path));
  const file = result.success ? result.output.authentication?.x509?.clientCAFile : undefined;
  return file === undefined || file === '' ? undefined : resolve(dirname(path), file);
}

function parseYaml(text: string, path: string): unknown {
  try {
    return parse(text, { maxAliasCount: 0, logLevel: 'error' });
  } catch (error) {
    throw fleetError('fleet/identity', `${path} is not YAML: ${yamlFault(error)}`);
  }
}

/** Without the lines that the parser shows. They may be secret, so the error is no cause either. */
function yamlFault(error: unknown): string {
  return oneLine(reasonOf(error).split(':\n\n', 1)[0] ?? '');
}
