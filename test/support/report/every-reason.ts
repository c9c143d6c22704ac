import fc, { type Arbitrary } from 'fast-check';
import type { Fault, Reason } from '../../../src/domain/model/reason.ts';
import { digestOf } from '../daemon/scenario.ts';

/** A reason that the domain concludes. */
export type Conclusion = Exclude<Reason, Fault>;
type Data<Code> = Extract<Conclusion, { readonly code: Code }>['data'];

/** Names of usual length, and the longest ones. */
const name = fc.constantFrom('sdb1', 'ocp', 'worker-3', '/var/lib/stickpin/incoming', 'x'.repeat(200));
const bundle = fc.constantFrom(
  { name: 'ocp', version: '4.13.7' },
  { name: 'shop-backend', version: '2026.11.23-rev12-b4' },
  { name: 'n'.repeat(63), version: `1.0.0-${'v'.repeat(120)}` },
);
const reference = fc.constantFrom('quay.io/a:1', `quay.example.com/release/art-dev@${digestOf('a')}`);
const words = fc.constantFrom(
  'disk I/O error',
  `rpc error: code = Unknown desc = ${'long '.repeat(90)}`,
  'y'.repeat(600),
  `The pull failed: ${'many words, '.repeat(30)}of no use. Look into the journal of the runtime. Then restart it`,
);
const names = fc.array(name, { minLength: 1, maxLength: 4 });
const count = fc.integer({ min: 1, max: 2_000_000_000 });
const images = fc.record({ present: count, total: count });
const digest = fc.constantFrom(digestOf('a'), digestOf('b'));
const flaws = fc.record({
  digest,
  why: fc.constantFrom('damaged' as const, 'unreadable' as const, 'truncated' as const),
  medium: name,
  more: fc.nat(9),
});
const interruption = fc.oneof(
  fc.record({ kind: fc.constant('unmounted' as const), medium: name }),
  fc.record({ kind: fc.constant('taken-out' as const), folder: name }),
  fc.record({ kind: fc.constant('taken-out' as const) }),
  fc.record({ kind: fc.constant('unplugged' as const) }),
  fc.record({ kind: fc.constant('peer-away' as const), peer: name }),
);

/** For each code of a conclusion: its data, and what the first 80 characters must say. */
export const EVERY_REASON: {
  readonly [Code in Conclusion['code']]: { readonly data: Arbitrary<Data<Code>>; readonly says: RegExp };
} = {
  'bundle/arch': {
    data: fc.record({ bundle, bundleArch: fc.constant('arm64'), nodeArch: fc.constant('amd64') }),
    says: /is made for arm64/,
  },
  'bundle/sequence': {
    data: fc.oneof(
      fc.record({ kind: fc.constant('below-floor' as const), bundle, sequence: count, floor: count }),
      fc.record({ kind: fc.constant('step' as const), bundle, sequence: count, highest: count, step: count }),
      fc.record({
        kind: fc.constant('same' as const),
        bundle,
        bundleId: digest,
        sequence: count,
        known: bundle,
        knownId: digest,
      }),
    ),
    says: /sequence|is older than/,
  },
  'bundle/version': {
    data: fc.record({ bundle, scheme: fc.constantFrom('semver' as const, 'three-tag' as const) }),
    says: /does not fit/,
  },
  'bundle/base': { data: fc.record({ bundle, base: bundle }), says: /builds on/ },
  'bundle/expired': { data: fc.record({ bundle, expires: fc.constant('2026-01-01T00:00:00Z') }), says: /expired on/ },
  'bundle/from-the-future': {
    data: fc.record({ bundle, created: fc.constant('2036-01-01T00:00:00Z') }),
    says: /was made (on|in)/,
  },
  'trust/approval': {
    data: fc.oneof(
      fc.record({ kind: fc.constant('found' as const), bundleId: digest, bundle, medium: name, signedBy: names }),
      fc.record({ kind: fc.constant('found-unsigned' as const), bundleId: digest, medium: name }),
      fc.record({ kind: fc.constant('adopted' as const), bundleId: digest, bundle }),
    ),
    says: /waits for approval|no trusted key signed/,
  },
  'trust/rejected': {
    data: fc.oneof(
      fc.record({ kind: fc.constant('found' as const), bundleId: digest, bundle, why: words }),
      fc.record({ kind: fc.constant('found' as const), bundleId: digest }),
      fc.record({ kind: fc.constant('adopted' as const), bundleId: digest, bundle }),
    ),
    says: /was rejected/,
  },
  'trust/blind': { data: fc.record({ bundle, cause: words }), says: /is not trusted/ },
  'trust/threshold': {
    data: fc.record({ bundle, signedBy: names, threshold: fc.integer({ min: 2, max: 99 }) }),
    says: /needs \d+ distinct/,
  },
  'trust/role': {
    data: fc.record({
      bundle,
      signedBy: names,
      role: name,
      why: fc.oneof(
        fc.record({ kind: fc.constant('no-role' as const) }),
        fc.record({ kind: fc.constant('threshold' as const), threshold: count, left: count }),
        fc.record({ kind: fc.constant('repository' as const), stream: name, repository: reference }),
      ),
    }),
    says: /is not trusted/,
  },
  'trust/key-revoked': {
    data: fc.record({ bundle, signedBy: names, keyIds: fc.constant(['5f0c'.repeat(16)]) }),
    says: /is not trusted/,
  },
  'engine/no-base': {
    data: fc.record({
      bundle,
      layers: count,
      base: fc.record({ name, bundleId: digest, isAdopted: fc.boolean() }),
      holders: names,
    }),
    says: /needs base/,
  },
  'engine/cancelled': { data: fc.record({ bundle, images }), says: /^The preload of/ },
  'engine/offline': { data: fc.record({ bundle, media: names }), says: / on / },
  'bundle/blob-missing': {
    data: fc.oneof(
      fc.record({
        kind: fc.constant('on-all-media' as const),
        bundle,
        images,
        media: names,
        blobs: count,
        first: fc.oneof(
          fc.record({ digest, why: fc.constantFrom('absent' as const, 'truncated' as const, 'damaged' as const) }),
          fc.record({ reference }),
        ),
      }),
      fc.record({ kind: fc.constant('rest' as const), bundle, images, layers: count, sizeBytes: count, first: digest }),
    ),
    says: / lacks |^Can't pull an image of /,
  },
  'engine/needs-copy': { data: fc.record({ bundle, images, flaws }), says: /needs an undamaged copy/ },
  'engine/no-source': {
    data: fc.record({ bundle, images, how: interruption }),
    says: /was unmounted|was taken out|^Stick removed|stopped giving/,
  },
  'media/peer-waited-for': {
    data: fc.record({ bundle, images, peer: name, queue: fc.record({ place: count, waiting: count }) }),
    says: /^Waiting for/,
  },
  'media/looking': { data: fc.record({ bundle, images }), says: /has just started/ },
  'media/reading': { data: fc.record({ bundle, images, medium: name }), says: /continues|is read again/ },
  'engine/image-missing': {
    data: fc.record({
      bundle,
      missing: count,
      total: count,
      named: fc.array(reference, { minLength: 1, maxLength: 9 }),
      isList: fc.boolean(),
      next: fc.oneof(
        fc.constant({ kind: 'pull' as const }),
        fc.constant({ kind: 'look' as const }),
        fc.record({ kind: fc.constant('copy' as const), flaws }),
        fc.constant({ kind: 'plug-in' as const }),
        fc.record({ kind: fc.constant('plug-in' as const), base: name }),
      ),
    }),
    says: /^\d+ of \d+ images of/,
  },
  'engine/image-damaged': {
    data: fc.record(
      {
        bundle,
        damaged: count,
        total: count,
        reference,
        fault: fc.record({ kind: fc.constant('records' as const), what: words }),
        next: fc.constantFrom('heal', 'plug-in', 'cancelled', 'in-use', 'shared', 'look', 'give-up'),
        base: name,
      },
      { requiredKeys: ['bundle', 'damaged', 'total', 'reference', 'fault', 'next'] },
    ),
    says: /^\d+ of \d+ images of/,
  },
  'engine/documents-missing': {
    data: fc.record(
      { bundle, lacking: count, total: count, isMixed: fc.boolean(), reference },
      { requiredKeys: ['bundle', 'lacking', 'total', 'reference'] },
    ),
    says: /^\d+ of \d+ images (?:and artifacts )?of/,
  },
  'runtime/sync-pending': { data: fc.record({ bundle, images: count }), says: /^\d+ images? of / },
  'engine/unchecked': { data: fc.record({ bundle, images: count }), says: /^\d+ images? of / },
  'runtime/pins-pending': { data: fc.record({ bundle, unpinned: count, total: count }), says: /^\d+ of \d+ images/ },
  'runtime/pins-ignored': {
    data: fc.record({
      bundle,
      unpinned: count,
      total: count,
      cause: fc.oneof(
        fc.record({ kind: fc.constant('fault' as const), fault: fc.record({ code: name, message: words }) }),
        fc.record({ kind: fc.constant('not-reported' as const), attempts: count, first: reference }),
      ),
    }),
    says: /^\d+ of \d+ images of/,
  },
  'engine/no-space': {
    data: fc.record({
      bundle,
      shortage: fc.record({
        kind: fc.constantFrom('bytes' as const, 'inodes' as const, 'staging' as const),
        path: name,
        needed: count,
        free: count,
        reserved: count,
        percent: count,
      }),
    }),
    says: /^Not enough (space|inodes) for/,
  },
  'engine/over-share': {
    data: fc.record({ bundle, share: fc.record({ role: name, needed: count, used: count, max: count }) }),
    says: /^No room for/,
  },
  'runtime/policy': {
    data: fc.record(
      { bundle, images: count, isMixed: fc.boolean(), first: fc.record({ code: name, message: words }) },
      { requiredKeys: ['bundle', 'images', 'first'] },
    ),
    says: /^policy\.json of this node refuses/,
  },
  'runtime/version': { data: fc.record({ runtime: name, needed: fc.constant('CRI-O 1.28') }), says: /is too old/ },
  'engine/tag-contested': {
    data: fc.record({ bundle, tag: reference, reference, names: reference, times: count }),
    says: /taken away again|^A tag of/,
  },
  'engine/rolled-back': {
    data: fc.record(
      {
        bundle,
        recorded: words.map((text) => `ocp 4.13.7 was rolled back: ${text}`),
        to: bundle,
      },
      { requiredKeys: ['bundle', 'recorded'] },
    ),
    says: /(was|is being) rolled back/,
  },
};
