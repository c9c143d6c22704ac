import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nextOpenings, WEEK_MINUTES, type WeeklyWindow } from '../../../../src/domain/model/windows.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const [MON, TUE, WED, , , SAT, SUN] = [0, 1, 2, 3, 4, 5, 6];

const weekly = (days: readonly number[], start: string, lengthMinutes: number): WeeklyWindow => {
  const [hours, minutes] = start.split(':').map(Number);
  return { days, startMinute: (hours ?? 0) * 60 + (minutes ?? 0), lengthMinutes };
};
/**
 * `opens > closes` in UTC; `open` for one that is open already, `…` for an end beyond the horizon.
 */
const next = (windows: readonly WeeklyWindow[], zone: string, from: string, count = 3) =>
  nextOpenings(windows, zone, Date.parse(from), count).map(({ opensAt, closesAt }) => {
    const text = (time: number | undefined, none: string) =>
      time === undefined ? none : new Date(time).toISOString().replace(':00.000Z', 'Z');
    return `${text(opensAt, 'open')} > ${text(closesAt, '…')}`;
  });

describe('the next openings of weekly windows', () => {
  it.each<[when: string, windows: WeeklyWindow[], from: string, expected: string[], zone?: string]>([
    [
      'the three windows of the Zincati manual, across midnight and the week',
      [weekly([SAT, SUN], '23:30', 60), weekly([WED], '01:00', 30)],
      '2026-03-02T12:00:00Z',
      [
        '2026-03-04T01:00Z > 2026-03-04T01:30Z',
        '2026-03-07T23:30Z > 2026-03-08T00:30Z',
        '2026-03-08T23:30Z > 2026-03-09T00:30Z',
      ],
    ],
    [
      "the manual's example in Panama, where Sunday's and Monday's windows touch",
      [weekly([SAT, SUN], '23:30', 60), weekly([MON], '00:00', 60)],
      '2026-03-02T12:00:00Z',
      [
        '2026-03-08T04:30Z > 2026-03-08T05:30Z',
        '2026-03-09T04:30Z > 2026-03-09T06:00Z',
        '2026-03-15T04:30Z > 2026-03-15T05:30Z',
      ],
      'America/Panama',
    ],
    [
      "the manual's example on the day on which US/Eastern sets clocks back: it is open twice, 90 minutes in all",
      [weekly([SUN], '01:30', 60)],
      '2026-10-31T12:00:00Z',
      [
        '2026-11-01T05:30Z > 2026-11-01T06:00Z',
        '2026-11-01T06:30Z > 2026-11-01T07:30Z',
        '2026-11-08T06:30Z > 2026-11-08T07:30Z',
      ],
      'US/Eastern',
    ],
    [
      "the manual's example on the day on which US/Eastern sets clocks forward: it is half as long",
      [weekly([SUN], '01:30', 60)],
      '2026-03-07T12:00:00Z',
      [
        '2026-03-08T06:30Z > 2026-03-08T07:00Z',
        '2026-03-15T05:30Z > 2026-03-15T06:30Z',
        '2026-03-22T05:30Z > 2026-03-22T06:30Z',
      ],
      'US/Eastern',
    ],
    [
      'a window that lies in the hour that Europe/Berlin leaves out: there is none in that week',
      [weekly([SUN], '02:15', 30)],
      '2026-03-23T12:00:00Z',
      [
        '2026-04-05T00:15Z > 2026-04-05T00:45Z',
        '2026-04-12T00:15Z > 2026-04-12T00:45Z',
        '2026-04-19T00:15Z > 2026-04-19T00:45Z',
      ],
      'Europe/Berlin',
    ],
    [
      'a window that begins in the hour that is left out: it is open from the first moment after it',
      [weekly([SUN], '02:30', 60)],
      '2026-03-28T12:00:00Z',
      [
        '2026-03-29T01:00Z > 2026-03-29T01:30Z',
        '2026-04-05T00:30Z > 2026-04-05T01:30Z',
        '2026-04-12T00:30Z > 2026-04-12T01:30Z',
      ],
      'Europe/Berlin',
    ],
    [
      'a window in the hour that Europe/Berlin has twice',
      [weekly([SUN], '02:00', 60)],
      '2026-10-24T12:00:00Z',
      [
        '2026-10-25T00:00Z > 2026-10-25T02:00Z',
        '2026-11-01T01:00Z > 2026-11-01T02:00Z',
        '2026-11-08T01:00Z > 2026-11-08T02:00Z',
      ],
      'Europe/Berlin',
    ],
    [
      'a zone that shifts by half an hour (Lord Howe)',
      [weekly([SUN], '01:00', 90)],
      '2026-04-04T00:00:00Z',
      [
        '2026-04-04T14:00Z > 2026-04-04T16:00Z',
        '2026-04-11T14:30Z > 2026-04-11T16:00Z',
        '2026-04-18T14:30Z > 2026-04-18T16:00Z',
      ],
      'Australia/Lord_Howe',
    ],
    [
      'windows that overlap: they are one',
      [weekly([TUE], '10:00', 60), weekly([TUE], '10:30', 120), weekly([TUE], '12:30', 30)],
      '2026-03-02T12:00:00Z',
      [
        '2026-03-03T10:00Z > 2026-03-03T13:00Z',
        '2026-03-10T10:00Z > 2026-03-10T13:00Z',
        '2026-03-17T10:00Z > 2026-03-17T13:00Z',
      ],
    ],
    [
      'one that is longer than a day, and crosses the week',
      [weekly([SAT], '12:00', 3 * 24 * 60)],
      '2026-03-10T12:00:00Z',
      [
        '2026-03-14T12:00Z > 2026-03-17T12:00Z',
        '2026-03-21T12:00Z > 2026-03-24T12:00Z',
        '2026-03-28T12:00Z > 2026-03-31T12:00Z',
      ],
    ],
    [
      'one that is open already: from its first moment on',
      [weekly([TUE], '12:00', 60)],
      '2026-03-10T12:00:00Z',
      ['open > 2026-03-10T13:00Z', '2026-03-17T12:00Z > 2026-03-17T13:00Z', '2026-03-24T12:00Z > 2026-03-24T13:00Z'],
    ],
    [
      'the first moment after one: it is closed',
      [weekly([TUE], '11:00', 60)],
      '2026-03-10T12:00:00Z',
      [
        '2026-03-17T11:00Z > 2026-03-17T12:00Z',
        '2026-03-24T11:00Z > 2026-03-24T12:00Z',
        '2026-03-31T11:00Z > 2026-03-31T12:00Z',
      ],
    ],
    [
      'Monday shortly after midnight, in a window of Sunday',
      [weekly([SUN], '23:30', 60)],
      '2026-03-09T00:10:00Z',
      ['open > 2026-03-09T00:30Z', '2026-03-15T23:30Z > 2026-03-16T00:30Z', '2026-03-22T23:30Z > 2026-03-23T00:30Z'],
    ],
    [
      'one of a whole week: it never closes',
      [weekly([WED], '03:00', WEEK_MINUTES)],
      '2026-03-10T12:00:00Z',
      ['open > …'],
    ],
    ['no window', [], '2026-03-10T12:00:00Z', []],
  ])('%s', (_when, windows, from, expected, zone = 'UTC') => {
    expect(next(windows, zone, from)).toEqual(expected);
  });

  it('have no milliseconds: a window opens at a full minute', () => {
    expect(next([weekly([TUE], '12:01', 1)], 'UTC', '2026-03-10T12:00:59.999Z', 1)).toEqual([
      '2026-03-10T12:01Z > 2026-03-10T12:02Z',
    ]);
  });

  it('are empty for an absurd clock', () => {
    const windows = [weekly([TUE], '12:01', 1)];
    for (const now of [8.64e15, -8.64e15, Number.NaN]) expect(nextOpenings(windows, 'UTC', now, 3)).toEqual([]);
  });

  it('equal the result of a search minute by minute', () => {
    const windows = fc.array(
      fc.record({
        days: fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 3 }),
        startMinute: fc.integer({ min: 0, max: 24 * 60 - 1 }),
        lengthMinutes: fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 3 * 24 * 60 })),
      }),
      { minLength: 1, maxLength: 3 },
    );
    const zones = fc.constantFrom(
      'UTC',
      'Europe/Berlin',
      'US/Eastern',
      'Australia/Lord_Howe',
      'Asia/Kathmandu',
      'America/Sao_Paulo',
    );
    // Days around changes of the clocks, and any others.
    const days = fc.oneof(
      fc
        .constantFrom('2026-03-08', '2026-03-29', '2026-04-05', '2026-10-04', '2026-10-25', '2026-11-01')
        .map((day) => Date.parse(day)),
      fc.integer({ min: 0, max: 3_000 }).map((day) => Date.parse('2024-01-01') + day * DAY),
    );
    fc.assert(
      fc.property(
        windows,
        zones,
        days,
        fc.integer({ min: -2 * 24 * 60, max: 2 * 24 * 60 }),
        (some, zone, day, minute) => {
          const from = day + minute * MINUTE;
          const [first] = nextOpenings(some, zone, from, 1);
          const found = slowSearch(some, zone, from, 8 * 24 * 60);
          if (found.opensAt !== 'beyond') expect(first?.opensAt ?? from).toBe(found.opensAt);
          if (found.closesAt !== 'beyond') expect(first?.closesAt).toBe(found.closesAt);
        },
      ),
      { numRuns: 60 },
    );
  });
});

/** Looks at each minute: its weekday and time, as the calendar of the zone shows them. */
function slowSearch(windows: readonly WeeklyWindow[], timeZone: string, from: number, minutes: number) {
  const names = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  const openMinutes = new Set(
    windows.flatMap(({ days, startMinute, lengthMinutes }) =>
      days.flatMap((day) =>
        Array.from({ length: lengthMinutes }, (_, at) => (day * 24 * 60 + startMinute + at) % WEEK_MINUTES),
      ),
    ),
  );
  const isOpen = (time: number) => {
    const parts = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
    return openMinutes.has(
      names.indexOf(parts.weekday ?? '') * 24 * 60 + Number(parts.hour) * 60 + Number(parts.minute),
    );
  };
  const search = (start: number, wanted: boolean) => {
    for (let at = start; at <= from + minutes * MINUTE; at += MINUTE) if (isOpen(at) === wanted) return at;
    return 'beyond' as const;
  };
  const opensAt = search(from, true);
  return { opensAt, closesAt: opensAt === 'beyond' ? opensAt : search(opensAt, false) };
}
