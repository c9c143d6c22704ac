import * as v from 'valibot';
import type { FleetView, OfferedBundle } from '../domain/fleet/fleet-view.ts';
import { type NodeStatus, parseNodeStatus } from '../domain/fleet/node-status.ts';
import { SEARCHES } from '../domain/fleet/search.ts';
import { type BundleId, type Digest, isDigest } from '../domain/model/digest.ts';

/** `GET /v1/offers`: what a node offers. */
export interface OffersDocument {
  readonly version: 1;
  readonly bundles: readonly OfferedBundle[];
  /** The own name and status of the node; the fleet process adds it for other nodes. */
  readonly node?: { readonly name: string; readonly status?: NodeStatus };
}

/**
 * `GET /v1/bundles/sha256:<hex>/blobs.json`: the blobs of a bundle that are there, with their
 * sizes.
 */
export interface BlobsDocument {
  readonly version: 1;
  readonly blobs: Readonly<Record<Digest, number>>;
}

/** `GET /v1/fleet` on `peers.sock`: what the fleet process tells the daemon. */
export interface FleetDocument extends FleetView {
  readonly version: 1;
}

const shortText = v.pipe(v.string(), v.minLength(1), v.maxLength(253));
const digest = v.custom<Digest>((value) => typeof value === 'string' && isDigest(value), 'must be a digest');
const bundleId: v.GenericSchema<unknown, BundleId> = digest;
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const status = v.pipe(
  v.unknown(),
  v.transform((document) => parseNodeStatus(document)),
);

const offeredBundle = v.object({
  bundleId,
  name: shortText,
  version: shortText,
  sequence: count,
  isWhole: v.boolean(),
  revision: shortText,
});

const bundles = v.pipe(v.array(offeredBundle), v.maxLength(1_000));

/** Reads `offers`. Unknown members are ignored; a status that can't be read is left out. */
export const offersSchema: v.GenericSchema<unknown, OffersDocument> = v.object({
  version: v.literal(1),
  bundles,
  node: v.optional(v.object({ name: shortText, status: v.optional(status) })),
}) as v.GenericSchema<unknown, OffersDocument>;

/** Reads `blobs.json`. */
export const blobsSchema = v.object({ version: v.literal(1), blobs: v.record(digest, count) });

const peer = v.object({
  name: shortText,
  address: shortText,
  trouble: v.optional(v.string()),
  bundles,
});

/** Reads `fleet`. */
export const fleetSchema: v.GenericSchema<unknown, FleetDocument> = v.object({
  version: v.literal(1),
  self: shortText,
  nodes: v.array(
    v.object({
      name: shortText,
      status: v.optional(status),
      seenAt: v.optional(v.number()),
      isAbsent: v.boolean(),
    }),
  ),
  peers: v.array(peer),
  apiTrouble: v.optional(v.string()),
  search: v.optional(v.picklist(SEARCHES)),
}) as v.GenericSchema<unknown, FleetDocument>;
