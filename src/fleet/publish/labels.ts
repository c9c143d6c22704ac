import { isLoaded } from '../../domain/fleet/loaded.ts';
import { releaseLabel, versionInLabels } from '../../domain/fleet/node-labels.ts';
import type { Phase } from '../../domain/model/phase.ts';
import { loadedStatus, shortBundle } from './node-status.ts';
import type { OwnBundle, OwnReport } from './own-report.ts';

const ACTIVATED: readonly Phase[] = ['activated', 'active', 'proven'];

/** All labels that the own Node has while this report holds, by key. */
export function labelsOf({ bundles }: OwnReport): Readonly<Record<string, string>> {
  const labels: [string, string][] = [];
  for (const name of new Set(bundles.map((bundle) => bundle.name).filter((stream) => stream !== ''))) {
    const stream = bundles.filter((bundle) => bundle.name === name).toSorted((a, b) => b.sequence - a.sequence);
    const activated = stream.find(({ current, phase }) => current === true && ACTIVATED.includes(phase));
    const ready = stream.find((bundle) => isLoaded(loadedStatus(bundle)));
    if (activated !== undefined) labels.push([releaseLabel('release', name), labelValue(activated)]);
    if (ready !== undefined) labels.push([releaseLabel('ready', name), labelValue(ready)]);
  }
  return Object.fromEntries(labels.sort(([a], [b]) => a.localeCompare(b)));
}

function labelValue(bundle: OwnBundle): string {
  return versionInLabels({ version: bundle.version, bundle: shortBundle(bundle) });
}
