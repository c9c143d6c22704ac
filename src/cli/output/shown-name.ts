import type { BundleReport } from '../../domain/report/parts/bundle-report.ts';

/**
 * The argument for `activate` and `approve`: `ocp@4.13.7`, or the digest of a bundle without a
 * verified name.
 */
export function shownName({ name, version, bundleId }: Pick<BundleReport, 'name' | 'version' | 'bundleId'>): string {
  return name === '' ? bundleId : `${name}@${version}`;
}
