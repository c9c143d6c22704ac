import { describe, expect, it } from 'vitest';
import { criticalMembers, parseContents, parseStoredContents } from '../../../../src/bundle/format/check-contents.ts';
import { parsePayload, parseStoredPayload } from '../../../../src/bundle/format/schema.ts';
import type { Contents, Payload } from '../../../../src/domain/model/bundle.ts';
import { plainPayload as payload } from '../../../support/bundles/plain-payload.ts';

const digest = `sha256:${'ab'.repeat(32)}`;
const image = { reference: `quay.io/a@${digest}`, digest, mediaType: 'm', tags: [], pin: true, layers: [] };
const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));

describe('unknown members', () => {
  it.each([
    ['without a list', {}, 'bundle/payload', 'colour'],
    ['that the list names', { critical: ['colour'] }, 'bundle/schema-version', '"colour", which must not be ignored'],
    ['with a list that is none', { critical: 'colour' }, 'bundle/payload', 'critical'],
    ['with a list of other things', { critical: [1] }, 'bundle/payload', 'critical.0'],
    ['in a rule', { update: { until: 1 }, critical: [] }, 'bundle/schema-version', 'member update.until (payload)'],
    ['in a rule, without a list', { update: { until: 1 }, colour: undefined }, 'bundle/payload', 'update.until'],
  ])('%s are refused', (_what, more, code, message) => {
    expect(() => parsePayload(bytes({ ...payload, colour: 'red', ...more }))).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    );
  });

  it('that the list leaves out are ignored, and stay named in what is stored', () => {
    const more = { colour: 'red', ignored: ['expires'], '\u001b[2J': 1, critical: ['update'] };
    const read = parsePayload(bytes({ ...payload, ...more }));
    expect(read).toEqual({ ...payload, critical: ['update'], ignored: ['colour', 'ignored', ' [2J'] });
    expect(parseStoredPayload(bytes(read))).toEqual(read);
  });

  it('are ignored in contents.json, its images, layers and artifacts, each path once', () => {
    const images = [image, { ...image, licence: 'MIT' }, { ...image, licence: 'BSD' }];
    const raw = bytes({ layers: [], images, sum: 1 });
    expect(() => parseContents(raw)).toThrow(/sum|licence/);
    const read = parseContents(raw, []);
    const ignored = ['contents.sum', 'contents.images.licence'];
    expect(read).toEqual({ layers: [], images: [image, image, image], ignored });
    expect(parseStoredContents(bytes(read))).toEqual(read);
    expect(() => parseContents(raw, ['contents.images.licence'])).toThrow(/"contents\.images\.licence"/);
  });

  it('that a later version knew and stored are ignored after a way back, unless they are critical', () => {
    const stored = { ...payload, ignored: ['shape'], colour: 'red', critical: ['update'] };
    expect(parseStoredPayload(bytes(stored))).toEqual({
      ...payload,
      critical: ['update'],
      ignored: ['shape', 'colour'],
    });
    expect(() => parseStoredPayload(bytes({ ...stored, critical: ['colour'] }))).toThrow(/must not be ignored/);
    const images = [{ ...image, licence: 'MIT' }];
    const contents = { layers: [], images: [image], ignored: ['contents.images.licence'] };
    expect(parseStoredContents(bytes({ layers: [], images }), [])).toEqual(contents);
    expect(() => parseStoredContents(bytes({ layers: [], images }), ['contents.images.licence'])).toThrow(/licence/);
  });

  it('have any name, also those that objects inherit', () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
    const raw = JSON.stringify({ ...payload, critical: [] }).replace(
      /}$/,
      `,${names.map((n) => `"${n}":{"critical":1}`)}}`,
    );
    const read = parsePayload(Buffer.from(raw));
    expect(read).toEqual({ ...payload, critical: [], ignored: names });
    expect(parseStoredPayload(bytes(read))).toEqual(read);
    expect(() => parsePayload(Buffer.from(raw.replace('"critical":[]', '"critical":["__proto__"]')))).toThrow(
      /"__proto__", which must not be ignored/,
    );
    expect(() => parsePayload(Buffer.from(raw.replace('"critical":[],', '')))).toThrow(/__proto__/);
  });

  it('are limited in number', () => {
    const many = Object.fromEntries(Array.from({ length: 257 }, (_, at) => [`m${at}`, at]));
    expect(() => parsePayload(bytes({ ...payload, ...many, critical: [] }))).toThrow(/more than 256 of its members/);
  });
});

it('create names the optional members but those that only people read', () => {
  const made = { ...payload, schedule: 'manual', warnings: ['x'], annotations: {} } as unknown as Payload;
  const contents = { layers: [], images: [{ ...image, component: 'etcd' }], artifacts: [] } as unknown as Contents;
  expect(criticalMembers(made, contents)).toEqual([
    'schedule',
    ...['contents.images.tags', 'contents.images.pin', 'contents.images.component', 'contents.artifacts'],
  ]);
});
