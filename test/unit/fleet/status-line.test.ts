import { expect, it } from 'vitest';
import { fleetStatusLine } from '../../../src/fleet/trouble.ts';

const idle = {
  served: [],
  waiting: 0,
  endpoint: { host: '10.0.0.3', port: 9777 },
  offered: 1,
  peers: [{}, { trouble: 'x' }],
  apiTrouble: undefined,
};
const MiB = 1024 * 1024;

it.each([
  [idle, 'Offers 1 bundle on 10.0.0.3:9777. 1 of 2 peers answer.'],
  [{ ...idle, endpoint: undefined, peers: [] }, 'Gives nothing to other nodes. No other node is known.'],
  [
    { ...idle, served: [{ name: 'worker-2', bytesPerSecond: 84 * MiB }], waiting: 1 },
    'Gives blobs to worker-2 (84 MiB/s); 1 node waits. 1 of 2 peers answer.',
  ],
  [
    { ...idle, served: ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name, bytesPerSecond: 0 })), waiting: 3 },
    'Gives blobs to a (0 B/s), b (0 B/s), c (0 B/s), d (0 B/s) and 1 more; 3 nodes wait. 1 of 2 peers answer.',
  ],
  [
    { ...idle, apiTrouble: 'it does not answer' },
    'Offers 1 bundle on 10.0.0.3:9777. 1 of 2 peers answer. Kubernetes API: it does not answer',
  ],
  [
    { ...idle, keysTrouble: 'line 2 is wrong; the keys from before stay in use' },
    'Offers 1 bundle on 10.0.0.3:9777. 1 of 2 peers answer. Keys: line 2 is wrong; the keys from before stay in use.',
  ],
])('tells whom it serves and whom it reaches: %#', (status, line) => {
  expect(fleetStatusLine(status)).toBe(line);
});
