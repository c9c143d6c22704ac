import { releaseLabel, versionInLabels } from '../../domain/fleet/node-labels.ts';
import type { Phase } from '../../domain/model/phase.ts';
import { shortBundle } from './node-status.ts';
import type { OwnBundle, OwnReport } from './own-report.ts';

const ACTIVATED: readonly Phase[] = ['activated', 'active', 'proven'];
const PRELOADED: readonly Phase[] = ['ready', 'superseded', ...ACTIVATED];

/** All labels that the own Node has while this report holds, by key. */
export function labelsOf({ bundles }: OwnReport): Readonly<Record<string, string>> {
  const labels: [string, string][] = [];
  for (const name of new Set(bundles.map((bundle) => bundle.name).filter((stream) => stream !== ''))) {
    const stream = bundles.filter((bundle) => bundle.name === name).toSorted((a, b) => b.sequence - a.sequence);
    const activated = stream.find(({ current, phase }) => current === true && ACTIVATED.includes(phase));
    const ready = stream.find(isReady);
    if (activated !== undefined) labels.push([releaseLabel('release', name), labelValue(activated)]);
    if (ready !== undefined) labels.push([releaseLabel('ready', name), labelValue(ready)]);
  }
  return Object.fromEntries(labels.sort(([a], [b]) => a.localeCompare(b)));
}

/**
 * Whether all its images are present and pinned. What was so counts as so while the runtime does
 * not answer: its restart takes away no label.
 */
function isReady({ phase, conditions }: OwnBundle): boolean {
  const isDenied = conditions.some(({ type, status }) => ['Preloaded', 'Pinned'].includes(type) && status === 'False');
  return PRELOADED.includes(phase) && !isDenied;
}

function labelValue(bundle: OwnBundle): string {
  return versionInLabels({ version: bundle.version, bundle: shortBundle(bundle) });
}
