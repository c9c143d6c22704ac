import { expect, it } from 'vitest';
import { clipStatus } from '../../../../src/cli/commands/node/verify-images.ts';

const STATUS = 'Preloading ocp 4.13.7 from sdb1: 37/112 images, 5.1 of 16.0 GiB, 84 MiB/s, 2 min left';

it.each([
  [200, STATUS],
  [60, 'Preloading ocp 4.13.7 from sdb1: 37/112 images,…, 2 min left'],
  [30, 'Preloading ocp 4.…, 2 min left'],
  [10, 'Preloadin…'],
])('a STATUS line in %d columns keeps the time that is left', (width, shown) => {
  expect(clipStatus(STATUS, width)).toBe(shown);
  expect(clipStatus(STATUS, width).length).toBeLessThanOrEqual(width);
});

it('keeps how far it is where no time is known', () => {
  expect(clipStatus('Checking the content of images: 1/2, 5.0 GiB read', 39)).toBe(
    'Checking the content of …, 5.0 GiB read',
  );
});
