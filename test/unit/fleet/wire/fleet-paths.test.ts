import { expect, it } from 'vitest';
import { fleetPaths } from '../../../../src/fleet/wire/documents.ts';

it('puts the folders of the fleet process beside those of the daemon', () => {
  expect(fleetPaths({ run_dir: '/run/stickpin', state_dir: '/var/lib/stickpin' })).toEqual({
    offersSocket: '/run/stickpin/offers.sock',
    peersSocket: '/run/stickpin-fleet/peers.sock',
    sourcesSocket: '/run/stickpin-sources/peers.sock',
    runDir: '/run/stickpin-fleet',
    stateDir: '/var/lib/stickpin-fleet',
  });
});
