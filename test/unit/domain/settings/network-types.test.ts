import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { formatEndpoint, isUnspecified, parseEndpoint } from '../../../../src/domain/settings/addresses.ts';
import { dataRate } from '../../../../src/domain/settings/value-types.ts';

describe('addresses of nodes', () => {
  it.each([
    ['10.0.0.4', '10.0.0.4:9777'],
    ['10.0.0.4:80', '10.0.0.4:80'],
    ['fd00::4', '[fd00::4]:9777'],
    ['[fd00::4]:80', '[fd00::4]:80'],
  ])('%s is %s', (text, whole) => {
    const endpoint = parseEndpoint(text, 9777);
    expect(endpoint && formatEndpoint(endpoint)).toBe(whole);
  });

  it.each(['worker-1', '10.0.0.4:0', '10.0.0.4:65536', '10.0.0.256', '[10.0.0.4]:80', 'fd00::4:99999', ''])(
    '%j is none',
    (text) => {
      expect(parseEndpoint(text, 9777)).toBeUndefined();
    },
  );
});

describe('data rates', () => {
  it.each([
    ['200 Mbit/s', 25_000_000],
    ['1.5Gbit/s', 187_500_000],
    ['8 kbit/s', 1_000],
    ['unlimited', 'unlimited'],
  ])('%s is %s bytes a second', (text, rate) => {
    expect(v.parse(dataRate.schema, text)).toBe(rate);
  });

  it.each(['0 Mbit/s', '200', '200 MB/s', '-1 Mbit/s', 200])('%j is refused', (text) => {
    expect(v.safeParse(dataRate.schema, text).success).toBe(false);
  });
});

it.each(['0.0.0.0', '::', '0:0:0:0:0:0:0:0', '::0', '::ffff:0.0.0.0', '::FFFF:0:0', '::0.0.0.0'])(
  'knows that %s stands for all addresses',
  (host) => expect(isUnspecified(host)).toBe(true),
);

it.each(['10.0.0.0', '0.0.0.1', '::1', 'ffff::', 'fd00::', '::ffff:10.0.0.1'])('knows that %s is one address', (host) =>
  expect(isUnspecified(host)).toBe(false),
);
