import type { BundleReport, StatusReport, StreamReport } from '../../src/domain/report/status-schema.ts';
import { formatBytes } from '../../src/platform/sizes.ts';
import { type Child, el, foreign, svg } from './dom.ts';
import { alert, button, card, empty, label, table, terms } from './parts.ts';
import type { Requests } from './requests.ts';
import { actionsOf, type BundleAction, graphOf, timeText, titleOf, toneOfBundle, toneOfCondition } from './view.ts';

export function releases(
  report: StatusReport,
  requests: Requests,
  shown: string | undefined,
  go: (id?: string) => void,
): Child {
  const bundle = report.bundles.find(({ bundleId }) => bundleId === shown);
  if (bundle !== undefined) return details(bundle, requests, go);
  const { bundles, rejected, streams } = report;
  if (bundles.length + rejected.length === 0)
    return empty('No bundle is known', 'Plug in a stick with a bundle. It is shown here.');
  return [
    bundles.length === 0 ? undefined : card('Releases', [], bundleTable(bundles, requests, go)),
    rejected.length === 0 ? undefined : card('Not taken', [], rejectedTable(rejected)),
    streams.map((stream) => graphCard(stream)),
  ];
}

function bundleTable(bundles: readonly BundleReport[], requests: Requests, go: (id?: string) => void): Child {
  return table(
    'Releases',
    ['Release', 'Phase', 'Images', 'Size', 'Actions'],
    bundles.map((bundle) => {
      const { phase, hold, images, sizeBytes, reason, current } = bundle;
      return [
        [
          button(foreign(titleOf(bundle)), () => go(bundle.bundleId), 'pf-m-link pf-m-inline'),
          reason === undefined ? undefined : el('p', { class: 'sp-quiet' }, foreign(reason.message)),
        ],
        el(
          'span',
          { class: 'sp-short' },
          label(hold === undefined ? phase : `${phase} (${hold})`, toneOfBundle(bundle)),
          current ? [' ', label('current', 'none')] : undefined,
        ),
        el('span', { class: 'sp-short' }, `${images.present} of ${images.total}`),
        el('span', { class: 'sp-short' }, formatBytes(sizeBytes)),
        actionButtons(bundle, requests),
      ];
    }),
  );
}

const BUTTONS: Readonly<Record<BundleAction, string>> = { activate: 'Activate', approve: 'Approve', reject: 'Reject' };

function actionButtons(bundle: BundleReport, requests: Requests): Child {
  return el(
    'div',
    { class: 'sp-buttons' },
    ...actionsOf(bundle).map((action) =>
      button(
        BUTTONS[action],
        () => requests[action](bundle),
        'pf-m-secondary pf-m-small',
        `${BUTTONS[action]} ${titleOf(bundle)}`,
      ),
    ),
  );
}

function rejectedTable(rejected: StatusReport['rejected']): Child {
  return table(
    'Bundles that are not taken',
    ['Bundle', 'Medium', 'Reason'],
    rejected.map(({ name, path, medium, reason }) => [
      foreign(name ?? path),
      foreign(medium),
      [foreign(reason.message), ' ', el('span', { class: 'sp-quiet' }, foreign(reason.code))],
    ]),
  );
}

function details(bundle: BundleReport, requests: Requests, go: (id?: string) => void): Child {
  const { phase, hold, reason, degraded, conditions = [], rules = [], warnings = [], verified = [] } = bundle;
  const { images, artifacts, sizeBytes, signedBy, media, activationHolds = [], advisory, kept, bundleId } = bundle;
  const date = (time: string | undefined) => (time === undefined ? undefined : timeText(time));
  return [
    button('All releases', () => go(), 'pf-m-link pf-m-inline'),
    degraded === undefined ? undefined : alert('danger', 'Needs attention', foreign(degraded.message)),
    reason === undefined ? undefined : alert('warning', 'Waits', foreign(reason.message)),
    activationHolds.map(({ message, until }) =>
      alert(
        'info',
        'The activation is held',
        foreign(message),
        until === undefined ? undefined : ` (until ${timeText(until)})`,
      ),
    ),
    advisory === undefined ? undefined : alert('warning', 'Advisory', foreign(`${advisory.from}: ${advisory.reason}`)),
    card(
      titleOf(bundle),
      [actionButtons(bundle, requests)],
      terms(
        ['Phase', label(hold === undefined ? phase : `${phase} (${hold})`, toneOfBundle(bundle))],
        ['Digest', el('span', { class: 'sp-digest' }, foreign(bundleId))],
        ['Sequence', `${bundle.sequence}`],
        ['Images', `${images.present} of ${images.total} present, ${images.pinned} pinned`],
        ['Artifacts', artifacts && `${artifacts.present} of ${artifacts.total} present`],
        ['Size', formatBytes(sizeBytes)],
        ['Signed by', signedBy.length === 0 ? 'no trusted key' : foreign(signedBy.join(', '))],
        ['On media', media.length === 0 ? undefined : foreign(media.join(', '))],
        ['Adopted', date(bundle.adoptedAt)],
        ['Ready', date(bundle.readyAt)],
        ['Activated', date(bundle.activatedAt)],
        ['Proven at', date(bundle.soakEndsAt)],
        ['Kept', kept === undefined ? undefined : foreign(kept)],
        ...rules.map(({ rule, value }) => [`Rule: ${rule}`, foreign(value)] as const),
        ['Warnings', warnings.length === 0 ? undefined : warnings.map((text) => el('p', {}, foreign(text)))],
        ['Images signed by', verified.length === 0 ? undefined : verified.map((text) => el('p', {}, foreign(text)))],
      ),
    ),
    conditions.length === 0
      ? undefined
      : card(
          'Conditions',
          [],
          table(
            'Conditions',
            ['Condition', 'Status', 'Message', 'Since'],
            conditions.map(({ type, status, reason: why, message, lastTransitionTime }) => [
              type,
              label(status, toneOfCondition({ type, status, reason: why })),
              foreign(message),
              timeText(lastTransitionTime),
            ]),
          ),
        ),
  ];
}

/** Height of a row of the graph and place of its dot, in pixels; the same in page.css. */
const ROW = 44;
const DOT_X = 84;

function graphCard(stream: StreamReport): Child {
  const { rows, edges } = graphOf(stream);
  if (rows.length === 0) return undefined;
  return card(
    `Update graph of ${stream.name}`,
    [],
    el(
      'div',
      { class: 'sp-graph' },
      svg(
        'svg',
        { class: 'sp-graph-lines', 'aria-hidden': 'true', width: DOT_X + 16, height: ROW * rows.length },
        ...edges.map(({ from, to }) => svg('path', { class: 'sp-edge', d: arc(from, to) })),
        ...rows.map(({ tone }, at) => svg('circle', { class: `sp-node sp-${tone}`, cx: DOT_X, cy: middle(at), r: 6 })),
      ),
      el(
        'ol',
        { class: 'sp-graph-rows' },
        ...rows.map(({ version, phase, tone, notes, from }) =>
          el(
            'li',
            {},
            el('strong', {}, foreign(version)),
            ' ',
            label(phase, tone),
            el(
              'span',
              { class: 'sp-quiet' },
              foreign([...notes, ...(from.length === 0 ? [] : [`from ${from.join(', ')}`])].join('; ')),
            ),
          ),
        ),
      ),
    ),
  );
}

function middle(row: number): number {
  return row * ROW + ROW / 2;
}

/** A curve at the left of the dots, with its arrow at the target. */
function arc(from: number, to: number): string {
  const [start, end] = [middle(from), middle(to)];
  const x = DOT_X - 9;
  const bend = Math.max(6, x - 22 * Math.sqrt(Math.abs(to - from)));
  const tip = `M${x - 6},${end - 4} L${x},${end} L${x - 6},${end + 4}`;
  return `M${x},${start} C${bend},${start} ${bend},${end} ${x},${end} ${tip}`;
}
