import { describe, expect, it } from 'vitest';
import { clusterNodeOf } from '../../../../src/fleet/kubernetes/kubernetes-cluster.ts';
import { parseServes, servesAnnotation } from '../../../../src/fleet/publish/own-report.ts';
import type { ClusterNode } from '../../../../src/fleet/trouble.ts';
import { digestOf } from '../../../../src/platform/digest.ts';

const status = {
  version: 1,
  releases: [{ name: 'ocp', version: '4.13.7', bundle: '0123456789abcdef', phase: 'ready' }],
} as const;

describe('clusterNodeOf', () => {
  it('reads what another node has published', () => {
    const bundles = [digestOf('b'), digestOf('a')];
    const expected: ClusterNode = {
      name: 'n2',
      endpoint: { host: '10.0.0.2', port: 9777 },
      serves: [...bundles].sort(),
      status,
    };
    const annotations = {
      'stickpin.io/status': JSON.stringify(status),
      'stickpin.io/serves': servesAnnotation({ address: '10.0.0.2', port: 9777, bundles }),
    };
    expect(clusterNodeOf({ name: 'n2', annotations })).toEqual(expected);
  });

  it('reads text without control characters', () => {
    const [release] = status.releases;
    const evil = { version: 1, arch: 'amd\u001b[2J64', releases: [{ ...release, reason: 'trust/x\r\n\u202ey' }] };
    const read = clusterNodeOf({ name: 'n2', annotations: { 'stickpin.io/status': JSON.stringify(evil) } });
    expect(read.status).toEqual({ version: 1, arch: 'amd [2J64', releases: [{ ...release, reason: 'trust/x y' }] });
  });

  it('takes a node without stickpin for one that gives and tells nothing', () => {
    expect(clusterNodeOf({ name: 'n3' })).toEqual({ name: 'n3', serves: [] });
  });

  it.each([
    '',
    'true',
    'null',
    '{"version":2}',
    '{"version":1,"address":"example.org","port":9777,"bundles":[]}',
    '{"version":1,"address":"10.0.0.2","port":0,"bundles":[]}',
    '{"version":1,"address":"10.0.0.2","port":9777,"bundles":["sha256:1"]}',
    `{"version":1,"address":"10.0.0.2","port":9777,"bundles":[],"more":"${'x'.repeat(9_000)}"}`,
  ])('takes an annotation of another tool for none: %.60s', (text) => {
    const annotations = { 'stickpin.io/status': text, 'stickpin.io/serves': text };
    expect(clusterNodeOf({ name: 'n4', annotations })).toEqual({ name: 'n4', serves: [] });
  });
});

describe('an address that each machine has itself', () => {
  it.each([
    '127.0.0.1',
    '127.8.8.8',
    '0.0.0.0',
    '169.254.169.254',
    '::',
    '::1',
    'fe80::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:169.254.1.1',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    '224.0.0.1',
    '255.255.255.255',
    '::ffff:224.0.0.1',
    'ff02::1',
  ])('is not asked, and told: %s', (address) => {
    const serves = servesAnnotation({ address, port: 9777, bundles: [digestOf('a')] });
    const refused: string[] = [];
    const node = clusterNodeOf({ name: 'n5', annotations: { 'stickpin.io/serves': serves } }, (one) =>
      refused.push(one),
    );
    expect(node).toEqual({ name: 'n5', serves: [] });
    expect(refused).toEqual([address]);
  });
});

describe('servesAnnotation', () => {
  it('is the same for the same bundles in another order, and names at most 32', () => {
    const bundles = Array.from({ length: 40 }, (_, at) => digestOf(String(at)));
    const text = servesAnnotation({ address: 'fd00::4', port: 1, bundles });
    expect(servesAnnotation({ address: 'fd00::4', port: 1, bundles: [...bundles].reverse() })).toBe(text);
    expect(parseServes(text)).toEqual({ endpoint: { host: 'fd00::4', port: 1 }, bundles: bundles.sort().slice(0, 32) });
  });
});
