import { expect, it } from 'vitest';
import { announcedEndpoint } from '../../../../src/fleet/publish/own-report.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

const own = [{ name: 'n1', serves: [] }];

it('announces the address on which it listens', () => {
  const endpoint = { host: '10.9.9.9', port: 1 };
  expect(announcedEndpoint(endpoint, fixedCluster('n1', '10.0.0.1'))).toEqual(endpoint);
});

it.each(['0.0.0.0', '::'])('announces the address of its Node where it listens on all of them: %s', (host) => {
  const cluster = fixedCluster('n1', '10.0.0.1');
  cluster.set(own);
  expect(announcedEndpoint({ host, port: 9777 }, cluster)).toEqual({ host: '10.0.0.1', port: 9777 });
});

it('announces none where the Node has no address, and says so only after it was read', () => {
  const cluster = fixedCluster('n1');
  expect(announcedEndpoint({ host: '::', port: 9777 }, cluster)).toBe('unknown');
  cluster.set(own);
  expect(announcedEndpoint({ host: '::', port: 9777 }, cluster)).toBeUndefined();
});
