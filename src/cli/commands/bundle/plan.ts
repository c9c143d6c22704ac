import type { BundlePlan } from '../../../factory/create-bundle.ts';
import type { CreateOptions } from '../../../factory/create-options.ts';
import type { PlannedArtifact, PlannedImage } from '../../../factory/images/plan-images.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import type { CommandContext } from '../../context/command-context.ts';
import type { SigningOptions } from '../../context/signing-options.ts';
import { wrapLines } from '../../output/text.ts';
import type { FactoryDocument } from '../../schema/factory-documents.ts';

type PlanDocument = FactoryDocument<'bundle-create-plan'>;

/** What `create --dry-run` prints. */
export function planDocument(
  { images, artifacts, layers, base, unfetched, sizeBytes, warnings }: BundlePlan,
  { name, version, arch, sequence, out }: CreateOptions,
  { key, signer }: SigningOptions,
): PlanDocument {
  const planned = (one: PlannedImage | PlannedArtifact) => {
    const ownLayers = [...new Set(one.layers)].flatMap((at) => layers[at] ?? []);
    const bytesOf = (some: typeof ownLayers) => some.reduce((sum, { size }) => sum + size, 0);
    const fetchBytes = unfetched.get(one.digest);
    return {
      reference: one.reference,
      tags: one.tags,
      platform: `linux/${arch}`,
      layers: ownLayers.length,
      sizeBytes: bytesOf(ownLayers),
      ...(fetchBytes !== undefined && { fetchBytes }),
      inBaseBytes: bytesOf(ownLayers.filter(({ digest }) => base?.layers.has(digest))),
    };
  };
  return {
    path: out,
    name,
    version,
    arch,
    sequence,
    images: images.map(planned),
    artifacts: artifacts.map(planned),
    fetchBytes: [...images, ...artifacts].reduce((sum, { digest }) => sum + (unfetched.get(digest) ?? 0), 0),
    bundleBytes: sizeBytes,
    signing: { keys: key, signers: signer },
    warnings,
  };
}

export function planText(plan: PlanDocument, { columns }: CommandContext): string {
  const { name, version, arch, images, artifacts, signing } = plan;
  const signers = [...signing.keys, ...signing.signers.map((command) => `the command ${command}`)];
  const lines = [
    `${name} ${version} for ${arch} would be in ${plan.path}:`,
    ...[...images, ...artifacts].map((one) => `  ${one.tags[0] ?? one.reference}: ${partText(one)}`),
    `To fetch: ${formatBytes(plan.fetchBytes)}. The bundle: ${formatBytes(plan.bundleBytes)}.`,
    signers.length === 0 ? 'It would not be signed.' : `It would be signed with ${signers.join(', ')}.`,
    'Nothing was written.',
  ];
  return wrapLines(`${lines.join('\n')}\n`, columns, 4);
}

function partText({ reference, platform, layers, sizeBytes, fetchBytes, inBaseBytes }: PlanDocument['images'][number]) {
  const place =
    fetchBytes === undefined
      ? 'from a file'
      : fetchBytes === 0
        ? 'in the cache'
        : `${formatBytes(fetchBytes)} to fetch`;
  const inBase = inBaseBytes === 0 ? '' : `, ${formatBytes(inBaseBytes)} left to the base`;
  const digest = reference.slice(reference.indexOf('@') + 1);
  return `${digest}, ${platform}, ${formatCount(layers, 'layer')} of ${formatBytes(sizeBytes)}, ${place}${inBase}`;
}
