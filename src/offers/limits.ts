import type { ServerOptions } from 'node:http';
import { limits } from '../bundle/limits.ts';

const KiB = 1024;
const MiB = 1024 * KiB;

/** Limits of the wire form, for both ends. Sizes in bytes, times in milliseconds. */
export const wireLimits = {
  /** All headers of a request or an answer. */
  headerBytes: 8 * KiB,
  /** `/v1/offers`: 1,000 bundles and a status. */
  offersBytes: MiB,
  /** `/v1/fleet`: 5,000 nodes, each with an annotation of 2 KiB. */
  fleetBytes: 16 * MiB,
  /** `blobs.json`: 100 bytes for each blob of the largest bundle. */
  blobsBytes: 8 * MiB,
  /** The body of an error, and of 503. */
  errorBytes: 4 * KiB,
  /** Files of a bundle, as on a stick. */
  fileBytes: {
    'bundle.dsse.json': limits.envelopeBytes,
    'contents.json': limits.contentsBytes,
    'index.json': limits.indexBytes,
  },
  /** Until a connection is open, and until the head of an answer is there. */
  answerMs: 30_000,
  /** Until a document is there as a whole. */
  documentMs: 60_000,
  /** How long a body may bring no byte. */
  stallMs: 20_000,
  /** While a body is waited for so long, it brings at least `progressBytes`. */
  progressMs: 60_000,
  progressBytes: 16 * KiB,
  /** How long a client may take no byte. A runtime that unpacks may pause. */
  clientStallMs: 60_000,
  /** How long a request for a document may wait for a change (RFC 7240, `wait`). */
  longestWaitMs: 60_000,
  /** Connections of one node to another, and its requests at once. */
  ofNode: 16,
  /** How long a connection without a request stays open. */
  idleMs: 5_000,
  /** How long a client waits that was told no time by 503. */
  retryMs: 10_000,
} as const;

/** What every server of the wire form sets. A response may take as long as its client reads. */
export const WIRE_SERVER_OPTIONS: ServerOptions = {
  maxHeaderSize: wireLimits.headerBytes,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
  keepAliveTimeout: wireLimits.idleMs,
};
