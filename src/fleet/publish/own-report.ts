import { BlockList, isIP } from 'node:net';
import * as v from 'valibot';
import type { TurnRelease } from '../../domain/fleet/awaited-node.ts';
import type { ShownRollOut } from '../../domain/fleet/node-status.ts';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import { bundleReport, statusReport } from '../../domain/report/status-schema.ts';
import { type Endpoint, isUnspecified } from '../../domain/settings/addresses.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { Parsed } from '../../platform/schema.ts';
import { schemaFault } from '../../platform/schema-fault.ts';
import type { Cluster } from '../trouble.ts';

const { runtime, rejected, stateProblems, wanted, pauses, progress, media } = statusReport.entries;
const { nodes: _, ...wantedRelease } = wanted.item.entries;
const { code } = bundleReport.entries.activationHolds.wrapped.item.entries;
const { reason, message } = bundleReport.entries.conditions.wrapped.item.entries;

const bundle = v.object({
  ...v.pick(bundleReport, ['name', 'version', 'sequence', 'phase', 'hold', 'reason', 'degraded', 'signedBy', 'media'])
    .entries,
  ...v.pick(bundleReport, [
    'images',
    'artifacts',
    'sizeBytes',
    'adoptedAt',
    'activatedAt',
    'current',
    'runs',
    'rolledBack',
    'rollOut',
  ]).entries,
  bundleId: v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value), 'must be a digest'),
  // With words that a later daemon adds too.
  activationHolds: v.optional(v.array(v.object({ code, releasedBy: v.string() })), []),
  conditions: v.optional(v.array(v.object({ type: v.string(), status: v.string(), reason, message })), []),
});

/** Default values: of what an older daemon does not write. */
const ownReport = v.object({
  arch: v.optional(v.string()),
  runtime,
  media: v.optional(v.array(v.object(v.pick(media.item, ['medium', 'kind']).entries)), []),
  bundles: v.array(bundle),
  rejected,
  stateProblems,
  wanted: v.optional(v.array(v.object(wantedRelease)), []),
  pauses: v.optional(pauses, []),
  progress,
});

/** The part of `status.json` that others see. */
export type OwnReport = Parsed<typeof ownReport>;

export type OwnBundle = OwnReport['bundles'][number];

/** Releases that a plugged-in stick carries. */
export function releasesOnSticks(report: OwnReport | undefined): readonly TurnRelease[] {
  const { arch = '', media = [], bundles = [] } = report ?? {};
  const sticks = new Set(media.filter(({ kind }) => kind === 'stick').map(({ medium }) => medium));
  const carried = bundles.filter((one) => one.name !== '' && one.media.some((medium) => sticks.has(medium)));
  return carried.map(({ bundleId, name, version }) => ({ bundleId, name, version, arch, scheme: undefined }));
}

/** Keys of the labels that releases need which wait for their turn; undefined: none waits. */
export function labelsToRead(report: OwnReport | undefined): readonly string[] | undefined {
  const all = (report?.bundles ?? []).flatMap(({ rollOut }) => (rollOut?.reads === undefined ? [] : [rollOut.reads]));
  return all.length === 0 ? undefined : [...new Set(all.flat())].sort();
}

export function rollOutsOf(report: OwnReport | undefined): readonly ShownRollOut[] {
  return (report?.bundles ?? []).flatMap(({ name, version, rollOut }) =>
    rollOut?.progress === undefined || name === '' ? [] : [{ name, version, progress: rollOut.progress }],
  );
}

type ParsedReport =
  | { readonly kind: 'report'; readonly report: OwnReport }
  | { readonly kind: 'foreign'; readonly why: string };

/** Unknown members are ignored. */
export function parseOwnReport(text: string): ParsedReport {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return { kind: 'foreign', why: oneLine(reasonOf(error)) };
  }
  const result = v.safeParse(ownReport, document);
  if (result.success) return { kind: 'report', report: result.output };
  const [issue] = result.issues;
  return { kind: 'foreign', why: `${v.getDotPath(issue) ?? 'the document'}: ${oneLine(schemaFault(issue))}` };
}

/** The node itself has the whole list. */
const MOST_BUNDLES = 32;
const MOST_CHARACTERS = 8_192;

export interface OwnServes {
  /** An IP address. */
  readonly address: string;
  readonly port: number;
  readonly bundles: readonly BundleId[];
}

interface Serves {
  /** Undefined with {@link refused}. */
  readonly endpoint: Endpoint | undefined;
  /** Not used, since each machine has it: loopback, link-local, or unspecified. */
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

/**
 * Addresses that name another machine, none, or many on each machine; also as IPv4 within IPv6 (RFC
 * 4291, 6052).
 */
const LOCAL = new BlockList();
LOCAL.addSubnet('0.0.0.0', 8);
LOCAL.addSubnet('127.0.0.0', 8);
LOCAL.addSubnet('169.254.0.0', 16);
LOCAL.addSubnet('224.0.0.0', 3);
LOCAL.addSubnet('::', 96, 'ipv6');
LOCAL.addSubnet('64:ff9b::', 96, 'ipv6');
LOCAL.addSubnet('fe80::', 10, 'ipv6');
LOCAL.addSubnet('ff00::', 8, 'ipv6');

/** No other node has such an address. */
export function isLocal(host: string): boolean {
  return LOCAL.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4');
}

/**
 * The published address: its `InternalIP` where this node listens on all addresses. Undefined
 * without one, `unknown` before the Kubernetes API has answered.
 */
export function announcedEndpoint(endpoint: Endpoint, cluster: Cluster): Endpoint | undefined | 'unknown' {
  if (!isUnspecified(endpoint.host)) return endpoint;
  const host = cluster.address();
  if (host !== undefined) return { ...endpoint, host };
  return cluster.nodes().length === 0 ? 'unknown' : undefined;
}

/** Annotation `stickpin.io/serves`, version 1. The same for the same set of bundles. */
export function servesAnnotation({ address, port, bundles }: OwnServes): string {
  const named = [...new Set(bundles)].sort().slice(0, MOST_BUNDLES);
  return JSON.stringify({ version: 1, address, port, bundles: named });
}

/** Unknown members are ignored. Undefined for other texts: another tool may have written them. */
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
