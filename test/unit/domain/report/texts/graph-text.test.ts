import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { renderList } from '../../../../../src/cli/output/render/render-status.ts';
import { wrapLines } from '../../../../../src/cli/output/text.ts';
import type { UpdateRules } from '../../../../../src/domain/model/bundle.ts';
import { reportOf } from '../../../../../src/domain/report/report.ts';
import type { StreamReport } from '../../../../../src/domain/report/status-schema.ts';
import { graphText } from '../../../../../src/domain/report/texts/release-text.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  reachable,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';

const DAY = 86_400_000;
const still = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
const release = (minor: number, update: UpdateRules = {}, over: Partial<StoredBundle> = {}): StoredBundle => ({
  ...stored(verified({ version: `1.${minor}.0`, sequence: minor, images: { [`etcd-${minor}`]: ['os'] }, update })),
  readyAt: 1,
  ...over,
});
const CURRENT = { activatedAt: 2, provenAt: 3 };
const report = (bundles: readonly StoredBundle[]) => {
  const observed = observation({ runtime: reachable({ images: bundles.flatMap(allListed) }) });
  return reportOf({ observed, memory: observed, assessment: judge(observed, bundles).assessment }, still);
};

describe('the graph of a stream', () => {
  const story = [
    release(1, {}, { ...CURRENT, activatedAt: 1, provenAt: 1 }),
    release(2, {}, CURRENT),
    release(3, {
      barrier: { reason: 'the storage is migrated, and nothing that is older can read what it has written' },
    }),
    release(4, { from: '>=1.3.0' }),
  ];

  it('is drawn with its edges, barriers, dead ends and where the node is', () => {
    const dead = release(5, { deadend: { reason: 'a mistake' } });
    const [stream] = report([...story, dead]).streams;
    expect(stream && graphText(stream)).toBe(`Stream ocp
Present release: 1.2.0, activated last
Next release: 1.3.0

  1.1.0 (sequence 1, superseded)
* 1.2.0 (sequence 2, proven, present)
    <- 1.1.0
> 1.3.0 (sequence 3, ready, next)
    barrier: the storage is migrated, and nothing that is older can read what it has written
    <- 1.1.0, 1.2.0
  1.4.0 (sequence 4, ready)
    <- 1.3.0
  1.5.0 (sequence 5, ready)
    dead end: a mistake
    <- 1.3.0, 1.4.0
`);
  });

  it('shows a barrier that is not here, and a stream of which nothing is known to run', () => {
    const notice = stored(
      verified({
        version: '2026.1.1',
        sequence: 9,
        images: {},
        advisories: [{ version: '1.7.0', barrier: true, reason: 'x' }],
      }),
    );
    const shown = report([release(4, { from: '1.3.x' }), notice]);
    const [stream] = shown.streams;
    const text = stream === undefined ? '' : graphText(stream);
    expect(text).toContain('Present release: unknown\n');
    expect(text).toContain('  1.7.0 (not here)\n    barrier: x\n');
    const note = /Nobody knows which release of ocp runs here, so neither "from" nor barriers apply/;
    expect(text.replace(/\s+/g, ' ')).toMatch(note);
    expect(shown.status).toMatch(note);
    expect(renderList(shown)).toMatch(note);
  });

  it.each([
    { days: 91, note: undefined },
    { days: 90, note: /^ocp 1\.2\.0 reaches its end of life on \d{4}-\d\d-\d\d, in 90 days\.$/ },
    { days: 1, note: /, in 1 day\.$/ },
    { days: 0, note: /^ocp 1\.2\.0 has been past its end of life since / },
  ])('warns of an end of life $days days ahead', ({ days, note }) => {
    const endOfLife = new Date(NOON + days * DAY).toISOString();
    const { streams, status } = report([release(2, { endOfLife }, CURRENT)]);
    const notes = streams[0]?.notes ?? [];
    expect(notes).toEqual(note === undefined ? [] : [expect.stringMatching(note)]);
    for (const one of notes) expect(status).toContain(one);
  });

  it('states in STATUS that the current release is a dead end, and why', () => {
    const { status } = report([release(2, { deadend: { reason: 'it loses data' } }, CURRENT)]);
    expect(status).toContain('ocp 1.2.0 is a dead end (it loses data): no release follows it automatically.');
  });

  it('shows in list what each release waits for, and what ends the wait', () => {
    const list = renderList(report([...story, release(5, { from: '9.x' })]));
    expect(list).toMatch(/ocp@1\.2\.0 +proven \(current\)/);
    expect(list).toMatch(
      /^A-02 ocp@1\.4\.0: .*[Bb]arrier 1\.3\.0 must be activated and proven first.* It is activated automatically when /m,
    );
    expect(list).toMatch(/^A-02 ocp@1\.5\.0: .*needs 9\.x.*'stickpin activate ocp@1\.5\.0'/m);
  });

  it('breaks no word on a terminal of 80 columns, for any content', () => {
    const word = fc.string({ maxLength: 120 });
    const stream: fc.Arbitrary<StreamReport> = fc.record({
      name: word,
      notes: fc.array(word, { maxLength: 2 }),
      releases: fc.array(
        fc.record({ version: word, sequence: fc.maxSafeNat(), phase: word, from: fc.array(word), barrier: word }),
        { maxLength: 3 },
      ),
    });
    fc.assert(
      fc.property(stream, (one) => {
        const [whole, narrow] = [graphText(one), wrapLines(graphText(one), 80, 4)];
        for (const line of narrow.split('\n')) {
          if (line.length > 80) expect(line.trim().split(/\s+/)).toHaveLength(1);
        }
        expect(narrow.split(/\s+/)).toEqual(whole.split(/\s+/));
      }),
    );
  });
});
