import { type BundleId, shortDigest } from '../../domain/model/digest.ts';
import type { BundleReport } from '../../domain/report/parts/bundle-report.ts';

/**
 * The argument for `activate` and `approve`: `ocp@4.13.7`, or the digest of a bundle without a
 * verified name.
 */
export function shownName({ name, version, bundleId }: Pick<BundleReport, 'name' | 'version' | 'bundleId'>): string {
  return name === '' ? bundleId : `${name}@${version}`;
}

type Named = Pick<BundleReport, 'name' | 'version' | 'bundleId' | 'phase'>;

/** Its name, with the digest in short where another bundle of the report has that name. */
export function titleIn(bundle: Named, bundles: readonly Named[]): string {
  const name = shownName(bundle);
  return commandNameIn(bundle, bundles) === name ? name : `${name} (${shortDigest(bundle.bundleId as BundleId)})`;
}

/** What a command takes for this bundle of the report and no other: its name, or its digest. */
export function commandNameIn(bundle: Named, bundles: readonly Named[]): string {
  const isMeantToo = (other: Named) =>
    other.bundleId !== bundle.bundleId && other.phase !== 'retired' && shownName(other) === shownName(bundle);
  return bundles.some(isMeantToo) ? bundle.bundleId : shownName(bundle);
}
