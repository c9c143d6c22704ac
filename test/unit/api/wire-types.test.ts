import fc from 'fast-check';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { METHODS, type MethodContract } from '../../../src/api/contract.ts';
import { bundleTable, managerTable } from '../../../src/api/properties/properties.ts';
import {
  count,
  flag,
  integer,
  large,
  lines,
  list,
  oneOf,
  text,
  type WireType,
  wireTypeOf,
} from '../../../src/api/wire-types.ts';
import { variant } from '../../../src/host/bus/message-bus.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { fuzz } from '../../support/fuzz.ts';

const size = wireTypeOf(
  v.pipe(
    v.object({ name: v.string(), bytes: v.pipe(v.number(), v.metadata({ dbus: 't' })) }),
    v.metadata({ dbus: 'struct' }),
  ),
);
const medium = wireTypeOf(v.object({ label: v.string(), reason: v.exactOptional(v.string()) }));

describe('types of the API', () => {
  it('have the signatures of D-Bus', () => {
    expect(size.signature).toBe('(st)');
    expect(list(size).signature).toBe('a(st)');
    expect(list(medium).signature).toBe('aa{sv}');
    expect(wireTypeOf(v.exactOptional(v.array(v.string()))).signature).toBe('as');
  });

  it('carry values to the client unchanged', () => {
    const there = <T>(type: WireType<T>, value: T): T => type.decode(type.encode(value));
    expect(there(size, { name: 'etcd', bytes: 2 ** 41 })).toEqual({ name: 'etcd', bytes: 2 ** 41 });
    expect(there(medium, { label: 'sdb1' })).toEqual({ label: 'sdb1' });
    expect(there(medium, { label: 'sdb1', reason: '' })).toEqual({ label: 'sdb1', reason: '' });
    expect(there(list(integer), [-1, 0, 1])).toEqual([-1, 0, 1]);
  });

  it('remove control characters from text that they send', () => {
    expect(text.encode('one\ntwo\u001b[2J\u202e')).toBe('one two [2J');
    expect(lines.encode('one\ntwo\u0000')).toBe('one\ntwo ');
  });

  it.each<[string, WireType<unknown>, unknown]>([
    ['a number for text', text, 7],
    ['text for a number', integer, '7'],
    ['a fraction', integer, 1.5],
    ['a number below zero', count, -1],
    ['a number that a double can not hold', large, 2n ** 60n],
    ['a number for a flag', flag, 1],
    ['an unknown word', oneOf('idle', 'busy'), 'asleep'],
    ['an object for a list', list(text), {}],
    ['a structure that is too short', size, ['etcd']],
    ['a list for a dictionary', medium, []],
    ['a dictionary without a member that must be there', medium, { reason: variant('s', 'x') }],
    ['a member of another type', medium, { label: variant('i', 7) }],
  ])('refuse %s', (_what, type, value) => {
    expect(() => type.decode(value)).toThrow(expect.objectContaining({ code: 'api/unreadable' }));
  });

  it('name the place of a value with a wrong type', () => {
    expect(() => list(medium).decode([{ label: variant('i', 7) }])).toThrow(
      'label: a value of D-Bus type s was expected, and a number came',
    );
  });

  it('ignore members that a later version adds', () => {
    expect(medium.decode({ label: variant('s', 'sdb1'), colour: variant('s', 'red') })).toEqual({ label: 'sdb1' });
  });

  it('fail only with this error, for any value', async () => {
    const results = Object.values<MethodContract>(METHODS).flatMap(({ result }) => Object.values(result));
    const types = [...managerTable.fields, ...bundleTable.fields].map(([, type]) => type);
    const values = fc.anything({ withBigInt: true, withNullPrototype: true });
    await fuzz('values of the API', 500, values, (value) => {
      for (const type of [...types, ...results]) {
        try {
          type.decode(value);
        } catch (error) {
          expect(error).toBeInstanceOf(AppError);
          expect(error).toMatchObject({ code: 'api/unreadable' });
        }
      }
    });
  });
});
