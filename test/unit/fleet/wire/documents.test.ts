import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import {
  type BlobsDocument,
  blobsSchema,
  type FleetDocument,
  fleetSchema,
  type OffersDocument,
  offersSchema,
} from '../../../../src/fleet/wire/documents.ts';

const BUNDLE = digestFromHex('a'.repeat(64));
const OFFER = { bundleId: BUNDLE, name: 'ocp', version: '4.13.7', sequence: 7, isWhole: true, revision: '1' };
const STATUS = { version: 1 as const, releases: [] };

describe('the documents of the wire form', () => {
  it('are read as they are written', () => {
    const offers: OffersDocument = { version: 1, bundles: [OFFER], node: { name: 'worker-1', status: STATUS } };
    const blobs: BlobsDocument = { version: 1, blobs: { [BUNDLE]: 12 } };
    const fleet: FleetDocument = {
      version: 1,
      self: 'worker-2',
      nodes: [
        { name: 'worker-1', status: STATUS, seenAt: 1, isAbsent: true },
        { name: 'worker-2', isAbsent: false },
      ],
      peers: [{ name: 'worker-1', address: '10.0.0.4:9777', bundles: [OFFER] }],
      apiTrouble: 'It was not asked yet.',
      search: 'short',
    };
    expect(v.parse(offersSchema, offers)).toEqual(offers);
    expect(v.parse(blobsSchema, blobs)).toEqual(blobs);
    expect(v.parse(fleetSchema, fleet)).toEqual(fleet);
  });

  it('leave out a status that can not be read', () => {
    const offers = { version: 1, bundles: [], node: { name: 'worker-1', status: { version: 9 } } };
    expect(v.parse(offersSchema, offers).node).toEqual({ name: 'worker-1', status: undefined });
  });

  it.each([
    ['another version', { version: 2, bundles: [] }],
    ['a bundle without an id', { version: 1, bundles: [{ ...OFFER, bundleId: 'sha256:1' }] }],
    ['a negative sequence', { version: 1, bundles: [{ ...OFFER, sequence: -1 }] }],
    ['too many bundles', { version: 1, bundles: Array.from({ length: 1_001 }, () => OFFER) }],
  ])('are refused: %s', (_what, document) => {
    expect(v.safeParse(offersSchema, document).success).toBe(false);
  });
});
