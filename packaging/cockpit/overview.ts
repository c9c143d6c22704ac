import type { StatusReport, StreamReport } from '../../src/domain/report/status-schema.ts';
import { formatBytes, formatCount } from '../../src/platform/sizes.ts';
import { type Child, el, foreign } from './dom.ts';
import { alert, button, card, label, table, terms } from './parts.ts';
import type { Requests } from './requests.ts';
import {
  currentOf,
  hasFallback,
  headlineOf,
  othersOf,
  timeText,
  titleOf,
  toneOfBundle,
  toneOfCondition,
  transferOf,
} from './view.ts';

export function overview(report: StatusReport, requests: Requests): Child {
  return [
    headline(report, requests),
    othersOf(report).map(({ code, message, bundle }) =>
      alert(
        'warning',
        [foreign(bundle ?? 'This node'), el('span', { class: 'sp-code' }, foreign(code))],
        foreign(message),
      ),
    ),
    el(
      'div',
      { class: 'sp-columns' },
      releasesCard(report, requests),
      mediaCard(report, requests),
      nodeCard(report),
      othersCard(report),
    ),
  ];
}

function headline(report: StatusReport, requests: Requests): Child {
  const { tone, title, code, text } = headlineOf(report);
  const transfer = transferOf(report);
  return el(
    'section',
    { class: 'sp-headline', 'aria-label': 'What to do' },
    alert(
      tone,
      [foreign(title), code === undefined ? undefined : el('span', { class: 'sp-code' }, foreign(code))],
      el('p', { role: 'status' }, foreign(text)),
      el('div', { class: 'sp-buttons' }, ...awaited(report, requests)),
      transfer && bar(transfer),
      transfer && el('div', { class: 'sp-buttons' }, button('Cancel the preload', requests.cancel)),
    ),
  );
}

/** What an administrator does as planned. */
function awaited({ waitsForAdmin = [], bundles }: StatusReport, requests: Requests): readonly Child[] {
  const named = new Set(waitsForAdmin.map(({ bundle }) => bundle));
  return bundles
    .filter(({ name, version, phase, activationHolds = [] }) => {
      const isByHand = activationHolds.some(({ code }) => code === 'engine/manual' || code === 'rule/rollout');
      return named.has(`${name}@${version}`) && (phase !== 'ready' || isByHand);
    })
    .map((one) =>
      one.phase === 'ready'
        ? button(`Activate ${titleOf(one)}`, () => requests.activate(one), 'pf-m-primary')
        : button(`Approve ${titleOf(one)}`, () => requests.approve(one), 'pf-m-primary'),
    );
}

function bar({ percent, text, images }: NonNullable<ReturnType<typeof transferOf>>): Child {
  return el(
    'div',
    { class: 'sp-transfer' },
    el(
      'div',
      {
        class: 'sp-bar',
        role: 'progressbar',
        'aria-label': 'Preload',
        'aria-valuemin': 0,
        'aria-valuemax': 100,
        'aria-valuenow': percent,
      },
      el('div', { class: 'sp-bar-done', width: percent }),
    ),
    el('p', {}, `${percent} %: ${text}`),
    images.length === 0 ? undefined : el('p', { class: 'sp-quiet' }, foreign(`Images: ${images.join(', ')}`)),
  );
}

function releasesCard(report: StatusReport, requests: Requests): Child {
  const { streams } = report;
  return card(
    'Releases in use',
    [],
    streams.length === 0
      ? el('p', {}, 'No release is known. Plug in a stick.')
      : streams.map((stream) => streamPart(stream, report, requests)),
  );
}

function streamPart(stream: StreamReport, report: StatusReport, requests: Requests): Child {
  const { name, current, next, notes } = stream;
  const bundle = currentOf(report, name);
  return el(
    'div',
    { class: 'sp-stream' },
    el(
      'div',
      { class: 'sp-header' },
      el(
        'h3',
        {},
        foreign(current === undefined ? name : `${name} ${current.version}`),
        ' ',
        bundle ? label(bundle.phase, toneOfBundle(bundle)) : undefined,
      ),
      hasFallback(report, name)
        ? el(
            'div',
            { class: 'sp-buttons' },
            button('Roll back', () => requests.rollBack(name), undefined, `Roll back ${name}`),
          )
        : undefined,
    ),
    current === undefined ? el('p', {}, 'No release is activated.') : undefined,
    next === undefined ? undefined : el('p', {}, 'Next: ', foreign(next)),
    bundle?.degraded === undefined ? undefined : el('p', {}, foreign(bundle.degraded.message)),
    notes.map((note) => el('p', {}, foreign(note))),
  );
}

function mediaCard({ media }: StatusReport, requests: Requests): Child {
  return card(
    'Media',
    [button('Rescan', requests.rescan)],
    media.length === 0
      ? el('p', {}, 'No stick is plugged in.')
      : table(
          'Media',
          ['Medium', 'State', 'Bundles'],
          media.map(({ medium, state, bundles, reason }) => [
            [foreign(medium), reason === undefined ? undefined : el('p', {}, foreign(reason.message))],
            label(state, reason === undefined ? 'none' : 'danger'),
            `${bundles}`,
          ]),
        ),
  );
}

/** Hooks of the node are of a medium, or of nothing. */
function hookTitle(hook: string, of: string | undefined): string {
  return of === undefined ? hook : `${hook} of ${of}`;
}

function nodeCard({ runtime, conditions, windows, hooks, stateProblems }: StatusReport): Child {
  return card(
    'Node',
    [],
    terms(
      [
        'Container runtime',
        runtime.reachable
          ? foreign(runtime.name ?? 'reachable')
          : [label('not reachable', 'danger'), ' ', foreign(runtime.reason ?? '')],
      ],
      ...conditions.map(
        ({ type, status, reason, message }) =>
          [
            NODE_CONDITIONS[type],
            [
              label(
                status === 'True' ? 'yes' : status === 'False' ? 'no' : 'unknown',
                toneOfCondition({ type, status, reason }),
              ),
              ' ',
              foreign(message),
            ],
          ] as const,
      ),
      [
        'Next window',
        windows.length === 0 ? undefined : windows.slice(0, 3).map(({ text }) => el('p', {}, foreign(text))),
      ],
      ...hooks.map(
        ({ hook, bundle, medium, state, message }) =>
          [
            `Hook`,
            [
              label(state, state === 'failed' ? 'danger' : 'info'),
              ' ',
              foreign(`${hookTitle(hook, bundle ?? medium)}${message === undefined ? '' : `: ${message}`}`),
            ],
          ] as const,
      ),
      ...stateProblems.map(({ message }) => ['State', foreign(message)] as const),
    ),
  );
}

const NODE_CONDITIONS = { PullsAnswered: 'Pulls work', PullsFromElsewhere: 'Needs images from elsewhere' } as const;

/** What waits for a person outside of the headline. */
function othersCard({ rejectedNames, unclaimed, wanted, protected: kept, notices }: StatusReport): Child {
  const lines: readonly Child[] = [
    ...notices.map((notice) => [
      foreign(titleOf(notice)),
      ` has no images. ${formatCount(notice.advisories.length, 'advisory entry')}.`,
    ]),
    ...rejectedNames.map(({ reason, since }) => [foreign(reason.message), ` (${timeText(since)})`]),
    ...unclaimed.map(({ name, version, references }) => [
      `${formatCount(references.length, 'pinned image')} of `,
      name === undefined ? 'an unknown release' : foreign(`${name} ${version}`),
      ' belong to no known release: plug in its stick.',
    ]),
    ...wanted.map(({ message }) => foreign(message)),
    ...kept.map(({ name, version, ownBytes }) => [
      foreign(`${name} ${version}`),
      ` is kept for good and takes ${formatBytes(ownBytes)} that nothing else needs.`,
    ]),
  ];
  if (lines.length === 0) return undefined;
  return card('Notes', [], el('ul', { class: 'sp-list' }, ...lines.map((line) => el('li', {}, line))));
}
