import { expect, it } from 'vitest';
import { barrierBlock } from '../../../../src/domain/activation/stream-path.ts';
import { type PathSpec, pathOf } from '../../../support/daemon/path-scene.ts';

it.each<[string, PathSpec, string]>([
  ['its proof, where the node is on it', { at: '1.3.0?', has: ['1.3.0', '1.4.0'], barriers: ['1.3.0'] }, 'proof'],
  [
    'its activation, where it is here',
    { at: '1.2.0', has: ['1.2.0', '1.3.0', '1.4.0'], barriers: ['1.3.0'] },
    'activation',
  ],
  ['its bundle, where it is not', { at: '1.2.0', has: ['1.2.0', '1.4.0'], barriers: ['1.3.0'] }, 'bundle'],
])('a release behind a barrier waits for %s', (_, spec, lacks) => {
  const path = pathOf(spec);
  const last = path.releases.find(({ version }) => version === '1.4.0');
  expect(last && barrierBlock(path, last)).toMatchObject({ barrier: '1.3.0', lacks });
});

it.each([
  ['the only one of its version', ['1.3.0'], 'trust'],
  ['one of two, and the other is trusted', ['1.3.0', '1.3.0'], 'activation'],
])('a release waits for the trust in a barrier that is withdrawn: %s', (_, barriers, lacks) => {
  const path = pathOf({ at: '1.2.0', has: ['1.2.0', ...barriers, '1.4.0'], barriers: ['1.3.0'] });
  const first = path.releases.findIndex(({ version }) => version === '1.3.0');
  const releases = path.releases.map((one, at) => ({ ...one, isWithdrawn: at === first }));
  const last = releases.find(({ version }) => version === '1.4.0');
  expect(last && barrierBlock({ ...path, releases }, last)).toMatchObject({ barrier: '1.3.0', lacks });
});
