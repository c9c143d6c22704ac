import { stringify } from 'yaml';
import type { BundleReport } from '../../domain/report/parts/bundle-report.ts';

/** The first version of OpenShift in which the object is of version v1. */
const HEAD = '# For OpenShift 4.19 or newer. Apply it with: oc apply -f FILE\n';

/**
 * The images of a release as a PinnedImageSet (machineconfiguration.openshift.io/v1), which the
 * Machine Config Operator pins on all nodes of a pool.
 *
 * @param references by digest
 * @param pool the name of the pool: `worker`, `master`
 */
export function pinnedImageSet(
  { name, version }: Pick<BundleReport, 'name' | 'version'>,
  references: readonly string[],
  pool: string,
): string {
  const document = {
    apiVersion: 'machineconfiguration.openshift.io/v1',
    kind: 'PinnedImageSet',
    metadata: {
      // RFC 1123: lower-case letters, digits, dashes and dots.
      name: `${name}-${version}`.toLowerCase().replaceAll(/[^a-z0-9.-]+/g, '-'),
      labels: { 'machineconfiguration.openshift.io/role': pool },
    },
    spec: { pinnedImages: references.map((reference) => ({ name: reference })) },
  };
  return `${HEAD}${stringify(document, { lineWidth: 0 })}`;
}
