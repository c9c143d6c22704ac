import { describe, expect, it } from 'vitest';
import { isTimeZone, offsetOf, wallTimeOf } from '../../../../src/domain/model/windows.ts';

const HOUR = 3_600_000;

describe('a time zone', () => {
  it.each(['UTC', 'Europe/Berlin', 'America/Sao_Paulo', 'US/Eastern', 'Asia/Kathmandu'])('%s is accepted', (name) => {
    expect(isTimeZone(name)).toBe(true);
  });

  it.each(['', 'localtime', 'Mars/Olympus', '+01:00', '-05:00', 'Europe/Berlin ', 'UTC+1', '../etc/passwd'])(
    '%j is refused',
    (name) => {
      expect(isTimeZone(name)).toBe(false);
    },
  );

  it.each([
    ['UTC', '2026-07-01T00:00:00Z', 0],
    ['Europe/Berlin', '2026-01-01T00:00:00Z', 1],
    ['Europe/Berlin', '2026-03-29T00:59:59.999Z', 1],
    ['Europe/Berlin', '2026-03-29T01:00:00Z', 2],
    ['US/Eastern', '2026-11-01T05:59:59.999Z', -4],
    ['US/Eastern', '2026-11-01T06:00:00Z', -5],
    ['Asia/Kathmandu', '2026-01-01T00:00:00Z', 5.75],
    ['Africa/Monrovia', '1960-01-01T00:00:00Z', -(44 * 60 + 30) / 3600],
  ])('%s is ahead of UTC at %s by %d hours', (zone, time, hours) => {
    expect(offsetOf(zone)(Date.parse(time))).toBe(Math.round(hours * HOUR));
  });

  it('shows a wall time', () => {
    const time = Date.parse('2026-11-28T22:30:59.999Z');
    expect(wallTimeOf(time, 'Europe/Berlin')).toEqual({ weekday: 'Sat', date: '2026-11-28', time: '23:30' });
    expect(wallTimeOf(time, 'Asia/Tokyo')).toEqual({ weekday: 'Sun', date: '2026-11-29', time: '07:30' });
  });
});
