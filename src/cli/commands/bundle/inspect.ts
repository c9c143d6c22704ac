import { join } from 'node:path';
import type { Command } from 'commander';
import { parsePublicKey } from '../../../bundle/keys/keys.ts';
import { readUntrusted, type UntrustedBundle } from '../../../bundle/verify/judge-bundle.ts';
import { blobsLeftToBase } from '../../../bundle/verify/verify-blobs.ts';
import {
  BASE_ANNOTATION,
  bundleTitle,
  type Contents,
  type Image,
  ignoredMembers,
  type Payload,
  verifiedLines,
} from '../../../domain/model/bundle.ts';
import type { Digest } from '../../../domain/model/digest.ts';
import { isFaulty } from '../../../domain/model/medium.ts';
import { orderOfRelease } from '../../../domain/model/roll-out-order.ts';
import { orderText, rolloutText } from '../../../domain/report/parts/part-reports.ts';
import type { WrittenSbom } from '../../../factory/output/write-sboms.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { openNamedBundle, pathOfOne } from '../../context/find-shown.ts';
import { withStick } from '../../context/read-stick.ts';
import { withPath } from '../../context/read-with-keys.ts';
import { adviceKinds } from '../../output/render/render-status.ts';
import { formatTable } from '../../output/table.ts';
import { type JsonFlag, jsonText, type Layout, printWarning, wrapLines } from '../../output/text.ts';
import type { FactoryDocument } from '../../schema/factory-documents.ts';

export function registerBundleInspect(bundle: Command, context: CommandContext): void {
  bundle
    .command('inspect')
    .description('show what is in a bundle, without trusting it')
    .argument('<bundle>', 'bundle directory, *.stickpin.tar, or a stick with one bundle: its folder, *.img or /dev/sdb')
    .option('--sbom <dir>', 'write the SBOMs that are attached to its images as files into this new folder')
    .option('--json', 'print as JSON')
    .action((path: string, options: InspectOptions) =>
      withStick(path, options, context, async (read, named) =>
        inspect(await pathOfOne(read, context.signal), options, named),
      ),
    );
}

interface InspectOptions extends JsonFlag {
  readonly sbom?: string;
}

async function inspect(path: string, { sbom: folder, json }: InspectOptions, context: CommandContext): Promise<void> {
  const reader = await openNamedBundle(path, context.signal);
  const found = await withPath(path, readUntrusted(reader, context.signal));
  if (folder === undefined) return context.stdout(json ? jsonText(asJson(found)) : asText(found, context));
  const { writeSboms } = await import('../../../factory/output/write-sboms.ts');
  const { sboms, notes } = await writeSboms(folder, reader, found.bundle.contents, context.signal);
  for (const note of notes) printWarning(note, context);
  context.stdout(json ? jsonText({ ...asJson(found), sboms }) : sbomText(found, sboms, folder, context));
}

function sbomText(
  { bundle: { payload, contents } }: UntrustedBundle,
  sboms: readonly WrittenSbom[],
  folder: string,
  { columns }: Layout,
): string {
  const lines = sboms.map(
    ({ file, image, format, sizeBytes }) =>
      `  ${join(folder, file)} (${format}, ${formatBytes(sizeBytes)}) of ${image}`,
  );
  const without = contents.images.length - new Set(sboms.map(({ image }) => image)).size;
  const has = without === 1 ? 'has' : 'have';
  const unlisted =
    without === 0
      ? []
      : [`  ${formatCount(without, 'image')} ${has} no SBOM; bundle create --referrers all takes them along`];
  return wrapLines(`${[`${bundleTitle(payload)} (not verified)`, ...lines, ...unlisted].join('\n')}\n`, columns, 4);
}

function asJson(found: UntrustedBundle): FactoryDocument<'bundle-inspect'> {
  const { envelope, bundle } = found;
  return {
    verified: false,
    bundleId: bundle.bundleId,
    signatures: keyIdsOf(envelope),
    payload: bundle.payload,
    contents: bundle.contents,
    leftToBase: [...blobsLeftToBase(found).keys()],
    missing: found.missing.filter(isFaulty),
  };
}

/** The valid key ids of the signatures. They are unverified, so other texts are not shown. */
function keyIdsOf({ signatures }: UntrustedBundle['envelope']): string[] {
  return signatures.map(({ keyId }) => (/^[0-9a-f]{64}$/.test(keyId) ? keyId : '(no key id)'));
}

function baseOf({ update, annotations }: Payload, inBase: ReadonlyMap<Digest, number>): string | undefined {
  if (update?.base === undefined) return undefined;
  const name = annotations?.[BASE_ANNOTATION];
  const sizeBytes = [...inBase.values()].reduce((sum, size) => sum + size, 0);
  const blobs = `${formatCount(inBase.size, 'blob')} of ${formatBytes(sizeBytes)} left to it`;
  return `${name === undefined ? '' : `${name}, `}${update.base}; ${blobs}`;
}

function asText(found: UntrustedBundle, layout: Layout): string {
  const { envelope, bundle } = found;
  const missing = found.missing.filter(isFaulty);
  const { payload, contents, bundleId } = bundle;
  const { totals } = payload;
  const facts: [string, string | undefined][] = [
    ['digest', bundleId],
    ['arch', payload.arch],
    ['sequence', String(payload.sequence)],
    ['created', payload.created],
    ['expires', payload.expires],
    ['scheme', payload.versionScheme],
    ['schedule', payload.schedule ?? 'immediate'],
    ['keep', payload.keep && 'life: nodes never retire it by themselves'],
    ['from', payload.update?.from],
    ['barrier', payload.update?.barrier?.reason],
    ['dead end', payload.update?.deadend?.reason],
    ['rollout', payload.update?.rollout && rolloutText(payload.update.rollout)],
    ['order', payload.update?.order && orderText(orderOfRelease(payload.update.order))],
    ['end of life', payload.update?.endOfLife],
    ['signatures', keyIdsOf(envelope).join(', ') || 'none'],
    ['images', `${totals.images}, with ${totals.blobs} blobs of ${formatBytes(totals.sizeBytes)}`],
    ['unpacked', `${formatBytes(totals.diskBytes)}, ${totals.inodes} files and directories`],
    ['base', baseOf(payload, blobsLeftToBase(found))],
    [
      'missing',
      missing.length === 0 ? undefined : `${formatCount(missing.length, 'blob')}; see stickpin bundle verify`,
    ],
  ];
  const lines = facts.flatMap(([name, value]) => (value === undefined ? [] : [`  ${name.padEnd(11)} ${value}`]));
  const attached = (payload.attachments ?? []).map(
    ({ name, mediaType, size }) => `  attached    ${name} (${mediaType}, ${formatBytes(size)})`,
  );
  const artifacts = (contents.artifacts ?? []).map(
    (artifact) =>
      `  artifact    ${artifact.tags[0] ?? artifact.reference} (${artifact.type}, ${formatBytes(sizeOf(artifact, contents))})`,
  );
  const advisories = (payload.advisories ?? []).map(
    ({ version, reason, ...advice }) => `  advisory    ${version}${adviceText(advice)}: ${reason}`,
  );
  const warnings = (payload.warnings ?? []).map((warning) => `  warning     ${warning}`);
  const verified = verifiedLines(payload).map((line) => `  verified    ${line}`);
  const ignored = ignoredMembers({ payload, contents }).map(
    (member) => `  ignored     ${member}, which this stickpin does not know`,
  );
  const head = [
    `${bundleTitle(payload)} (not verified)`,
    ...lines,
    ...advisories,
    ...trustLines(payload),
    ...artifacts,
    ...attached,
    ...verified,
    ...ignored,
    ...warnings,
  ];
  const table = contents.images.length === 0 ? '' : `\n${imageTable(contents, layout)}`;
  return `${wrapLines(head.join('\n'), layout.columns, 12)}\n${table}`;
}

function adviceText(advice: Parameters<typeof adviceKinds>[0]): string {
  const what = adviceKinds(advice, 'a ');
  return what === '' ? '' : ` is ${what}`;
}

/** Shows the ids of keys, and marks invalid keys: they were not checked before. */
function trustLines({ trust }: Payload): string[] {
  const keyOf = (pem: string) => {
    try {
      const { keyId } = parsePublicKey(pem, 'of the payload');
      const name = trust?.names?.[keyId];
      return name === undefined ? keyId : `${keyId} ${name}`;
    } catch {
      return '(no public key)';
    }
  };
  const where = trust?.role === undefined ? '' : ` in role ${trust.role}`;
  return [
    ...(trust?.keys ?? []).map((pem) => `  trust       ${keyOf(pem)}${where}`),
    ...(trust?.revoked ?? []).map((id) => `  revoke      ${id}${where}`),
  ];
}

function imageTable(contents: Contents, layout: Layout): string {
  const rows = contents.images.map((image) => [
    image.component ?? '-',
    formatBytes(sizeOf(image, contents)),
    image.pin ? 'pinned' : 'unpinned',
    image.reference,
    image.tags.map((tag) => tag.slice(tag.lastIndexOf(':') + 1)).join(', '),
  ]);
  return formatTable(['COMPONENT', 'SIZE', 'PIN', 'REFERENCE', 'TAGS'], rows, layout);
}

function sizeOf({ layers }: Pick<Image, 'layers'>, contents: Contents): number {
  return layers.reduce((sum, at) => sum + (contents.layers[at]?.sizeBytes ?? 0), 0);
}
