import { describe, expect, it } from 'vitest';
import { estimateDisk } from '../../../src/domain/disk-estimate.ts';

const disk = (totalBytes: number, freeBytes: number) => ({ path: '/var/lib/containers', totalBytes, freeBytes });

describe('estimateDisk', () => {
  it.each([
    { what: 'fits to the byte', needs: [100, 200], disk: disk(1000, 450), percent: 15, fits: true, reserved: 150 },
    { what: 'lacks one byte', needs: [100, 201], disk: disk(1000, 450), percent: 15, fits: false, reserved: 150 },
    { what: 'no reserve wanted', needs: [450], disk: disk(1000, 450), percent: 0, fits: true, reserved: 0 },
    { what: 'less free than reserved', needs: [1], disk: disk(1000, 100), percent: 15, fits: false, reserved: 100 },
    { what: 'nothing needed on a full disk', needs: [], disk: disk(1000, 0), percent: 15, fits: true, reserved: 0 },
    {
      what: 'a reserve of a part of a byte',
      needs: [0],
      disk: disk(1001, 451),
      percent: 15,
      fits: true,
      reserved: 151,
    },
  ])('$what', ({ needs, disk: filesystem, percent, fits, reserved }) => {
    const verdict = estimateDisk(
      needs.map((diskBytes) => ({ diskBytes })),
      filesystem,
      percent,
    );
    expect(verdict).toEqual({
      neededBytes: needs.reduce((sum, bytes) => sum + bytes, 0),
      freeBytes: filesystem.freeBytes,
      reservedBytes: reserved,
      path: '/var/lib/containers',
      fits,
    });
  });
});
