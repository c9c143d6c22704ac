import { describe, expect, it } from 'vitest';
import { takeActivatedSockets } from '../../../src/host/notify.ts';
import { unitObjectPath, unitOfObjectPath } from '../../../src/host/units.ts';

describe('socket activation', () => {
  it('takes the sockets that were passed to this process, with their names', () => {
    const env = { LISTEN_PID: '7', LISTEN_FDS: '2', LISTEN_FDNAMES: 'registry:other', PATH: '/bin' };
    expect(takeActivatedSockets(env, 7)).toEqual([
      { fd: 3, name: 'registry' },
      { fd: 4, name: 'other' },
    ]);
    expect(env).toEqual({ PATH: '/bin' });
  });

  it.each([
    [{}],
    [{ LISTEN_PID: '8', LISTEN_FDS: '1' }],
    [{ LISTEN_PID: '7', LISTEN_FDS: '0' }],
    [{ LISTEN_PID: '7', LISTEN_FDS: 'x' }],
  ])('takes nothing from %j', (env) => {
    expect(takeActivatedSockets(env, 7)).toEqual([]);
  });
});

describe('unit objects', () => {
  it.each([
    ['crio.service', '/org/freedesktop/systemd1/unit/crio_2eservice'],
    ['dev-sdb1.device', '/org/freedesktop/systemd1/unit/dev_2dsdb1_2edevice'],
    ['9p.mount', '/org/freedesktop/systemd1/unit/_39p_2emount'],
    ['run-media-7\\x2dsdb1.mount', '/org/freedesktop/systemd1/unit/run_2dmedia_2d7_5cx2dsdb1_2emount'],
  ])('%s lies at %s', (unit, path) => {
    expect(unitObjectPath(unit)).toBe(path);
    expect(unitOfObjectPath(path)).toBe(unit);
  });
});
