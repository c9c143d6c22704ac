import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { statusText } from '../../../src/domain/report/line.ts';
import { startFaultLine, wrongSettingsLine } from '../../../src/domain/report/reasons/node-lines.ts';
import type { Progress } from '../../../src/domain/report/status/media-line.ts';
import { restLine, statusLine } from '../../../src/domain/report/status/status-line.ts';
import { streamNotes } from '../../../src/domain/report/stream-report.ts';
import type { StoredBundle } from '../../../src/domain/state/state.ts';
import { diskFaultMessage } from '../../../src/platform/files/disk-fault.ts';
import {
  allListed,
  type BundleSpec,
  digestOf,
  found,
  judge,
  medium,
  NOON,
  observation,
  pathWith,
  pullOf,
  reachable,
  refused,
  type Scene,
  stored,
  verified,
} from '../../support/daemon/scenario.ts';

const HEAD = '| STATUS | code | what to do |';

/** A row of the page: alternatives, each of phrases that stand in the line in this order. */
interface Row {
  readonly cell: string;
  readonly phrases: readonly (readonly string[])[];
}

const quoted = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text);
const ROWS: readonly Row[] = readFileSync('docs/operate.md', 'utf8')
  .split(HEAD)
  .slice(1)
  .flatMap((table) => table.split('\n\n')[0]?.split('\n').slice(2) ?? [])
  .map((row) => {
    const [cell = ''] = row.replace(/^\| /, '').split(' | ');
    return { cell, phrases: cell.split(/(?<=`), (?=`)/).map(quoted) };
  });

/** The codes of the page, sorted. */
const CODES = new Set(
  [...readFileSync('docs/operate.md', 'utf8').matchAll(/^\| `([A-Z]-\d\d)` \|/gm)].map(([, code]) => code),
);

/** Whether a line has a code that the page explains, or asks for patience alone. */
function isExplained(line: string): boolean {
  const [, words, code] = /^([A-Z ]+?)(?: \(([A-Z]-\d\d)\))?: /.exec(line) ?? [];
  return ['WAIT', 'LEAVE THE STICK IN', 'DONE'].includes(words ?? '') || (code !== undefined && CODES.has(code));
}

/** Rows that some line has matched. */
const used = new Set<Row>();

const says = (line: string, phrases: readonly string[]) => {
  const pattern = phrases.map((phrase) => phrase.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*');
  return new RegExp(pattern).test(line);
};

/** The rows that speak of a line. */
function rowsFor(line: string): readonly Row[] {
  const matching = ROWS.filter(({ phrases }) => phrases.some((one) => says(line, one)));
  for (const row of matching) used.add(row);
  return matching;
}

const BAD = { digest: digestOf('layer dns'), why: 'damaged', medium: 'sdb1' } as const;
const still: Progress = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
const bundle = verified();
const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
const complete = reachable({ images: allListed(bundle) });
const stick = medium('sdb1', [found(bundle)]);
const broken = medium('sdc1', { kind: 'failed', reason: { code: 'media/mount', message: 'it can not be mounted' } });
const obstacle = (code: string, message: string): Partial<Scene> => ({ obstacle: { code, message } });

function failedPull(code: string, message: string): Partial<Scene> {
  const task = pullOf(bundle, 'etcd');
  return { media: [stick], failures: [{ task, attempts: 2, retryAt: NOON + 1, reason: { code, message } }] };
}

/** Lines that no reason of a release makes, and the code of what is behind them. */
const SCENES: readonly (readonly [Partial<Scene>, (readonly StoredBundle[])?, Partial<Progress>?])[] = [
  ...["No key is trusted: copy the factory's .pub file to /k", 'PRIVATE KEY in /k/a.key; delete it'].map(
    (message) => [{ trust: { ...observation({}).trust, alarm: { code: 'trust/no-key', message } } }] as const,
  ),
  [{ facts: { ...observation({}).facts, settingsFault: 'a.toml: x is not a setting of stickpin' } }],
  [{ media: [broken] }],
  [{ media: [broken, stick], runtime: complete }, [active]],
  [{ media: [medium('sdb1', [])] }],
  [{ media: [medium('sdb1', [refused('signature by unknown key 5f0c')])] }],
  [{ media: [medium('sdb1', [refused('signature by revoked key 5f0c8a9b1d2e…, which does not count')])] }],
  [{ media: [medium('sdb1', [refused('no key is trusted, since factory-2026 is revoked')])] }],
  [{ media: [medium('sdb1', [refused('contents.json is too large')])] }],
  [{ media: [medium('sdc1', [refused()]), stick], runtime: complete }, [active]],
  [{ media: [medium('sdb1', { kind: 'unmounted' })], runtime: complete }, [active]],
  [{ media: [stick], running: [pullOf(bundle, 'etcd')] }, [stored(bundle)], { waitingTransfers: 1, isStalled: true }],
  [{ runtime: { kind: 'unreachable', reason: 'no socket' } }],
  [{ runtime: { kind: 'unreachable', reason: 'none found', isAbsent: true } }],
  [{ runtime: { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'database is locked' } }],
  [{ runtime: { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'layer not known', isStorageDamaged: true } }],
  [failedPull('runtime/pull-failed', 'connection reset'), [stored(bundle)]],
  [
    failedPull(
      'media/blob-damaged',
      'Blob sha256:3113bc896d61… of etcd is damaged on sdb1 (its 5 bytes have digest sha256:e3d7ad59a694…). Copy ocp 4.13.7 to the stick again, or plug in another one.',
    ),
    [stored(bundle)],
  ],
  [
    failedPull(
      'media/blob-damaged',
      'Blob sha256:3113bc896d61… of etcd was read with other bytes than it has, and with the right ones when it was read again: the medium or its port is unreliable.',
    ),
    [stored(bundle)],
  ],
  [
    failedPull(
      'media/blob-unreadable',
      "Blob sha256:3113bc896d61… of etcd can't be read from sdb1: i/o error (EIO, read). Copy ocp 4.13.7 to the stick again, or plug in another one.",
    ),
    [stored(bundle)],
  ],
  [obstacle('runtime/config', 'Rendering the pins failed: /etc/crio/crio.conf can not be read')],
  ...(['full', 'quota', 'read-only'] as const).map(
    (fault) => [obstacle('store/no-space', diskFaultMessage('/var/lib/stickpin', fault))] as const,
  ),
  [
    obstacle(
      'store/damaged',
      "The state database /var/lib/stickpin/state.db is damaged: run 'systemctl restart stickpin'. Nothing more is recorded until then",
    ),
  ],
  [
    {
      runtime: {
        ...complete,
        hiddenMirrors: {
          repositories: ['quay.example.com/ocp/etcd'],
          fault: {
            code: 'runtime/mirrors-hidden',
            message:
              'Behind 99-stickpin.conf comes /etc/containers/registries.conf.d/zz.conf, which configures the same repositories and so takes our mirrors away: rename it so that it sorts before',
          },
        },
      },
    },
    [stored(bundle, { readyAt: 1, activatedAt: 2 })],
  ],
  [{ trust: { ...observation({}).trust, revocationsUnreadable: true } }],
  [
    { runtime: complete },
    [active, stored(verified({ version: '4.13.8', sequence: 8, images: { dns: ['dns'] } }), { badBlobs: [BAD] })],
  ],
  [{ stateProblems: [{ code: 'store/damaged', message: 'state.db was damaged' }] }],
  [{ runtime: complete }, [stored(verified({ schedule: 'manual' }), { readyAt: NOON })]],
];

const current = (update: NonNullable<BundleSpec['update']>) =>
  stored(verified({ update }), { readyAt: 1, activatedAt: 2, provenAt: 3 });
function failingLine(): string {
  const observed = observation({ runtime: complete });
  const { assessment } = judge(observed, [active]);
  const soak = { kind: 'soaking', remainingMs: undefined, lacking: [], failing: ['etcd'] } as const;
  const line = restLine(observed, {
    ...assessment,
    bundles: assessment.bundles.map((entry) => ({ ...entry, phase: 'active' })),
    life: { ...assessment.life, soaks: new Map([[bundle.bundleId, soak]]) },
  });
  return statusText(line);
}

/** Notes that STATUS adds without a code. */
const NOTES: readonly (readonly [string, string])[] = [
  ['the current release is a dead end', streamNotes(pathWith([current({ deadend: { reason: 'x' } })])).join(' ')],
  [
    'the end of life is near',
    streamNotes(pathWith([current({ endOfLife: new Date(NOON + 86_400_000).toISOString() })])).join(' '),
  ],
];

it('a component that fails, and what keeps the daemon from starting, have their codes', () => {
  expect(failingLine()).toMatch(/but etcd failed/);
  for (const line of [startFaultLine('store/open', 'no'), wrongSettingsLine('a.toml: line 2: x is not a setting', '')])
    expect(isExplained(statusText(line))).toBe(true);
});

describe('docs/operate.md: from a STATUS line to what to do', () => {
  it.each(SCENES.map((scene) => ({ scene })))('has a row for what no release is the reason of (%#)', ({ scene }) => {
    const [over, bundles = [], progress = {}] = scene;
    const observed = observation(over);
    const { assessment } = judge(observed, bundles);
    const line = statusLine({ observed, memory: observed, assessment }, { ...still, ...progress });
    expect({ line, isFound: rowsFor(line).length > 0 || isExplained(line) }).toEqual({ line, isFound: true });
  });

  it.each(NOTES)('has a row for the note that %s', (_, line) => {
    expect({ line, rows: rowsFor(line).length }).not.toEqual({ line, rows: 0 });
  });

  it('has no row that no line matches, and none that any line would match', () => {
    expect(ROWS.length).toBe(4);
    expect(CODES.size).toBeGreaterThan(100);
    expect(ROWS.filter(({ phrases }) => phrases.some((one) => one.length === 0)).map(({ cell }) => cell)).toEqual([]);
    expect(ROWS.filter((row) => !used.has(row)).map(({ cell }) => cell)).toEqual([]);
  });
});
