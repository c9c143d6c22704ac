import { expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { unsupportedNode } from '../../../src/platform/version.ts';

it.each(['22.22.2', '22.23.1', '24.15.0', '26.0.0', '27.0.0', '100.1.0'])('runs on Node.js %s', (version) => {
  expect(unsupportedNode(version)).toBeUndefined();
});

it.each(['18.20.4', '20.19.2', '22.9.0', '22.22.1', '23.11.0', '24.14.9', '25.1.0', ''])(
  'refuses Node.js %s and names the least version',
  (version) => {
    expect(unsupportedNode(version)).toContain(`22.22.2, 24.15, 26 or newer is needed, and this is ${version}.`);
  },
);

it('agrees with package.json', () => {
  expect(packageJson.engines.node).toBe('^22.22.2 || ^24.15.0 || >=26.0.0');
});
