import fc from 'fast-check';
import type * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { contentsSchema, parseContents } from '../../../../src/bundle/format/check-contents.ts';
import { envelopeSchema } from '../../../../src/bundle/format/dsse.ts';
import { configSchema, indexSchema, manifestSchema } from '../../../../src/bundle/format/oci-schema.ts';
import { isTimestamp, parsePayload, payloadSchema } from '../../../../src/bundle/format/schema.ts';
import { roleSchema } from '../../../../src/bundle/keys/roles.ts';
import { AppError } from '../../../../src/platform/app-error.ts';

import { plainPayload } from '../../../support/bundles/plain-payload.ts';
import { sampleKey } from '../../../support/bundles/sample-bundle.ts';

const digest = `sha256:${'ab'.repeat(32)}`;
const full = {
  ...plainPayload,
  expires: '2027-01-01T00:00:00+02:00',
  update: {
    from: '>=4.12.0',
    barrier: { reason: 'etcd' },
    deadend: { reason: 'x' },
    rollout: { start: '2026-01-02T00:00:00Z', durationMinutes: 60, startPercentage: 0.1 },
    order: {
      controlPlane: 'last',
      groups: ['zone=a'],
      canary: { nodes: 1, soakMinutes: 5 },
      maxUnavailable: '25%',
      onRollback: 'go-on',
    },
    endOfLife: '2028-01-01T00:00:00Z',
    base: digest,
  },
  schedule: 'manual',
  advisories: [{ version: '4.13.5', deadend: true, reason: 'loses data' }],
  trust: { keys: [sampleKey().publicPem], revoked: ['0'.repeat(64)] },
  attachments: [{ name: 'notes.txt', mediaType: 'text/plain', digest, size: 5 }],
  warnings: ['x'],
  annotations: { a: 'b' },
};
const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));

describe('parsePayload', () => {
  it('schemaVersion: unknown versions are refused by name, whatever else has changed with them', () => {
    const next = { schemaVersion: 2, streams: ['ocp'] };
    expect(() => parsePayload(bytes(next))).toThrow(
      expect.objectContaining({ code: 'bundle/schema-version', message: expect.stringContaining('schemaVersion 2') }),
    );
  });

  it('takes the least and the most that the format knows', () => {
    expect(parsePayload(bytes(plainPayload))).toEqual(plainPayload);
    expect(parsePayload(bytes(full))).toEqual(full);
  });

  it.each([
    [{ schemaVersion: 2 }, 'bundle/schema-version', 'schemaVersion 2 is not known'],
    [{ schemaVersion: '1.1' }, 'bundle/schema-version', 'schemaVersion "1.1" is not known'],
    [{ schemaVersion: null }, 'bundle/payload', 'schemaVersion'],
    [{ surprise: 1 }, 'bundle/payload', 'surprise'],
    [{ update: { surprise: 1 } }, 'bundle/payload', 'update.surprise'],
    [{ name: 'OCP' }, 'bundle/payload', 'name'],
    [{ name: 'a'.repeat(64) }, 'bundle/payload', 'name'],
    [{ version: '../4' }, 'bundle/payload', 'version'],
    [{ version: '2.6.2-rev1', versionScheme: 'semver' }, 'bundle/payload', 'version 2.6.2-rev1 must be SemVer'],
    [{ version: '2.6.2+x', versionScheme: 'three-tag' }, 'bundle/payload', 'version 2.6.2+x must be <app>'],
    [{ versionScheme: 'calver' }, 'bundle/payload', 'versionScheme'],
    [{ version: '2.6.2-rev1', update: { from: '^2.6.0' } }, 'bundle/payload', 'update.from ^2.6.0 must be a range'],
    [{ update: { from: 'newest' } }, 'bundle/payload', 'update.from'],
    [
      { version: '2.6.2-rev1', advisories: [{ version: '1.0.0+x', reason: 'y' }] },
      'bundle/payload',
      'version 1.0.0+x must be <app>',
    ],
    [{ arch: 'x86_64' }, 'bundle/payload', 'arch'],
    [{ sequence: 0 }, 'bundle/payload', 'sequence'],
    [{ sequence: 1.5 }, 'bundle/payload', 'sequence'],
    [{ sequence: 1e20 }, 'bundle/payload', 'sequence'],
    [{ created: '2026-01-01' }, 'bundle/payload', 'created'],
    [{ expires: '2026-13-01T00:00:00Z' }, 'bundle/payload', 'expires'],
    [{ index: { digest: 'md5:1', size: 1 } }, 'bundle/payload', 'index.digest'],
    [{ index: { digest, size: 17 * 2 ** 20 } }, 'bundle/payload', 'index.size'],
    [{ contents: { digest, size: 64 * 2 ** 20 + 1 } }, 'bundle/payload', 'contents.size'],
    [{ totals: { ...plainPayload.totals, images: 2001 } }, 'bundle/payload', 'totals.images'],
    [{ totals: { ...plainPayload.totals, inodes: -1 } }, 'bundle/payload', 'totals.inodes'],
    [{ schedule: 'later' }, 'bundle/payload', 'schedule'],
    [{ warnings: ['\u001b[2J'] }, 'bundle/payload', 'warnings.0'],
    [{ attachments: [{ ...full.attachments[0], name: '../x' }] }, 'bundle/payload', 'attachments.0.name'],
    [{ attachments: [{ ...full.attachments[0], name: 'n'.repeat(256) }] }, 'bundle/payload', 'attachments.0.name'],
    [{ attachments: [{ ...full.attachments[0], size: 2 ** 53 }] }, 'bundle/payload', 'attachments.0.size'],
    [{ advisories: Array(257).fill(full.advisories[0]) }, 'bundle/payload', 'advisories'],
    [{ annotations: { '\u001b[2J': 'x' } }, 'bundle/payload', 'annotations'],
    [
      { annotations: Object.fromEntries(Array.from({ length: 257 }, (_none, at) => [`a${at}`, ''])) },
      'bundle/payload',
      'annotations',
    ],
    [{ trust: { keys: Array.from({ length: 9 }, () => 'pem') } }, 'bundle/payload', 'must bring at most 8 keys'],
    [{ trust: { keys: ['pem'] } }, 'bundle/payload', 'trust.keys.0'],
    [{ trust: { revoked: ['me'] } }, 'bundle/payload', 'trust.revoked.0'],
    [{ trust: { names: { me: 'me' } } }, 'bundle/payload', 'trust.names.me'],
    [{ trust: { names: { ['0'.repeat(64)]: 'a b' } } }, 'bundle/payload', 'must be the name of a key'],
    [{ trust: { names: { ['0'.repeat(64)]: 'me' } } }, 'bundle/payload', 'must name only keys that it brings'],
  ])('payload: refuses %j with %s of %s', (change, code, path) => {
    expect(() => parsePayload(bytes({ ...plainPayload, ...change }))).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(path) }),
    );
  });

  it.each(Object.keys(plainPayload))('payload: demands %s', (member) => {
    const { [member as keyof typeof plainPayload]: _, ...rest } = plainPayload;
    expect(() => parsePayload(bytes(rest))).toThrow(
      expect.objectContaining({ code: 'bundle/payload', message: expect.stringContaining(member) }),
    );
  });

  it('throws nothing but AppError, whatever the bytes', () => {
    const members = Object.keys(full);
    const wild = fc.oneof(
      fc.uint8Array().map((raw) => Buffer.from(raw)),
      fc.jsonValue().map(bytes),
      fc
        .tuple(fc.constantFrom(...members), fc.jsonValue())
        .map(([member, value]) => bytes({ ...full, [member]: value })),
    );
    fc.assert(
      fc.property(wild, (raw) => {
        for (const parse of [parsePayload, parseContents]) {
          try {
            parse(raw);
          } catch (error) {
            expect(error).toBeInstanceOf(AppError);
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe('parseContents', () => {
  const image = { reference: `quay.io/a@${digest}`, digest, mediaType: 'm', layers: [] };

  it('pins by default', () => {
    expect(parseContents(bytes({ layers: [], images: [image] })).images[0]).toEqual({ ...image, tags: [], pin: true });
  });

  it.each([
    [{ layers: [], images: Array(2001).fill(image) }, 'images'],
    [{ layers: [], images: [{ ...image, layers: Array(5 * 512 + 1).fill(0) }] }, 'images.0.layers'],
    [{ layers: [], images: [{ ...image, component: '../x' }] }, 'images.0.component'],
    [{ layers: [], images: [{ ...image, extra: 1 }] }, 'images.0.extra'],
    [{ layers: [{ digest }], images: [] }, 'layers.0'],
    [{ images: [] }, 'layers'],
  ])('refuses what breaks a limit or lacks a member (%#)', (value, path) => {
    expect(() => parseContents(bytes(value))).toThrow(
      expect.objectContaining({ code: 'bundle/contents', message: expect.stringContaining(path) }),
    );
  });
});

describe('isTimestamp', () => {
  it.each(['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.123456+05:30'])('takes %s', (text) => {
    expect(isTimestamp(text)).toBe(true);
  });

  it.each([
    '2026-01-31',
    '2026-01-31T12:00:00',
    '2026-02-30T12:00:00Z',
    '2026-01-31T25:00:00Z',
    'now',
    '2026-01-31 12:00:00Z',
  ])('refuses %s', (text) => {
    expect(isTimestamp(text)).toBe(false);
  });
});

describe('every text, list and map of a document', () => {
  interface Node {
    readonly type: string;
    readonly pipe?: readonly (Node & { readonly kind: string; readonly requirement?: unknown })[];
    readonly entries?: Readonly<Record<string, Node>>;
    readonly wrapped?: Node;
    readonly item?: Node;
    readonly key?: Node;
    readonly value?: Node;
  }
  const LIMITS = ['max_length', 'max_bytes', 'max_entries', 'max_size', 'length'];
  const LIMITED = ['string', 'array', 'record'];
  const WITHOUT_PARTS = ['boolean', 'custom', 'literal', 'never', 'number', 'picklist', 'unknown'];

  function isBoundedPattern(pattern: unknown): boolean {
    const shape = pattern instanceof RegExp ? pattern.source.replace(/\\.|\[[^\]]*\]/g, 'x') : '*';
    return /^\^.*\$$/.test(shape) && !/[*+]|\{\d*,\}/.test(shape);
  }

  function stepsOf({ pipe: [first, ...others] = [] }: Node): NonNullable<Node['pipe']> {
    return [...(first === undefined ? [] : stepsOf(first)), ...others];
  }

  /** Paths of what may be of any size. `before`: steps whose limits hold too. */
  function unlimited(node: Node, path: string, before: NonNullable<Node['pipe']> = []): readonly string[] {
    const steps = [...before, ...stepsOf(node)];
    const isLimited = steps.some(
      ({ type, requirement }) => LIMITS.includes(type) || (type === 'regex' && isBoundedPattern(requirement)),
    );
    const known = ['object', 'strict_object', 'loose_object', 'exact_optional', 'optional', 'nullish', ...LIMITED];
    if (![...known, ...WITHOUT_PARTS].includes(node.type)) return [`${path}: unknown kind ${node.type}`];
    return [
      ...(LIMITED.includes(node.type) && !isLimited ? [path] : []),
      ...Object.entries(node.entries ?? {}).flatMap(([name, entry]) => unlimited(entry, `${path}.${name}`)),
      ...[node.wrapped, node.item, node.key, node.value].flatMap((part) => (part ? unlimited(part, path) : [])),
      ...stepsOf(node).flatMap((step) => (step.kind === 'schema' ? unlimited(step, path, steps) : [])),
    ];
  }

  it.each<[string, v.GenericSchema]>([
    ['payload', payloadSchema],
    ['contents.json', contentsSchema],
    ['index.json', indexSchema],
    ['manifest', manifestSchema],
    ['config', configSchema],
    ['envelope', envelopeSchema],
    ['role', roleSchema],
  ])('has a maximum in %s', (name, schema) => {
    expect(unlimited(schema as unknown as Node, name)).toEqual([]);
  });

  it('limits the range of update.from', () => {
    const from = Array.from({ length: 20_000 }, (_, at) => `4.12.${at}`).join(' || ');
    const long = bytes({ ...plainPayload, update: { from, base: digest } });
    expect(() => parsePayload(long)).toThrow(/update\.from: must have at most 1024 characters/);
  });
});
