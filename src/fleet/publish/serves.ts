import { BlockList, isIP } from 'node:net';
import * as v from 'valibot';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import { type Endpoint, isUnspecified } from '../../domain/settings/value-types.ts';
import type { Cluster } from '../cluster.ts';

/** Most bundles that are named. Who takes bundles asks the node for all of them. */
const MOST_BUNDLES = 32;
const MOST_CHARACTERS = 8_192;

/** What the own node gives to others, and where. */
export interface OwnServes {
  /** An IP address. */
  readonly address: string;
  readonly port: number;
  readonly bundles: readonly BundleId[];
}

/** What another node gives, and where. */
export interface Serves {
  /** Undefined where it names {@link refused}. */
  readonly endpoint: Endpoint | undefined;
  /**
   * An address that is not asked, since each machine has it: loopback, link-local, or unspecified.
   */
  readonly refused?: string;
  readonly bundles: readonly BundleId[];
}

const address = v.union([v.pipe(v.string(), v.ipv4()), v.pipe(v.string(), v.ipv6())]);
const bundleId = v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value));

const serves = v.object({
  version: v.literal(1),
  address,
  port: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535)),
  bundles: v.pipe(v.array(bundleId), v.maxLength(MOST_BUNDLES)),
});

/** Addresses that name another machine, or none, on each machine; also as IPv4-mapped IPv6. */
const LOCAL = new BlockList();
LOCAL.addSubnet('0.0.0.0', 8);
LOCAL.addSubnet('127.0.0.0', 8);
LOCAL.addSubnet('169.254.0.0', 16);
LOCAL.addAddress('::', 'ipv6');
LOCAL.addAddress('::1', 'ipv6');
LOCAL.addSubnet('fe80::', 10, 'ipv6');

/** Whether an address names another machine, or none, on each machine: no other node is there. */
export function isLocal(host: string): boolean {
  return LOCAL.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4');
}

/**
 * The address that others are told where this node listens: its `InternalIP` where it listens on
 * all addresses. Undefined when it has none, `unknown` before the Kubernetes API has answered.
 */
export function announcedEndpoint(
  endpoint: Endpoint,
  cluster: Pick<Cluster, 'address' | 'nodes'>,
): Endpoint | undefined | 'unknown' {
  if (!isUnspecified(endpoint.host)) return endpoint;
  const host = cluster.address();
  if (host !== undefined) return { ...endpoint, host };
  return cluster.nodes().length === 0 ? 'unknown' : undefined;
}

/**
 * The text of the annotation `stickpin.io/serves`, version 1. The same for the same set of bundles.
 */
export function servesAnnotation({ address, port, bundles }: OwnServes): string {
  const named = [...new Set(bundles)].sort().slice(0, MOST_BUNDLES);
  return JSON.stringify({ version: 1, address, port, bundles: named });
}

/**
 * Reads the annotation of another node. Unknown members are ignored. Undefined for what is no such
 * text of this version: another tool may have written it.
 */
export function parseServes(text: string): Serves | undefined {
  if (text.length > MOST_CHARACTERS) return undefined;
  try {
    const result = v.safeParse(serves, JSON.parse(text));
    if (!result.success) return undefined;
    const { address: host, port, bundles } = result.output;
    return isLocal(host) ? { endpoint: undefined, refused: host, bundles: [] } : { endpoint: { host, port }, bundles };
  } catch {
    return undefined;
  }
}
