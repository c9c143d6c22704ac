import type { Command } from 'commander';
import { takeEnvelope } from '../../../bundle/create/payload/take-envelope.ts';
import { bundleTitle } from '../../../domain/model/bundle.ts';
import { parseReference } from '../../../domain/model/reference.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import { openNamedBundle } from '../../context/bundle-argument.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { jsonText } from '../../output/json.ts';
import { wrapLines } from '../../output/wrap-words.ts';

interface BundleEnvelopeOptions {
  readonly out: string;
  readonly json?: true;
}

/** Adds `envelope` to the command `bundle`. */
export function registerBundleEnvelope(bundle: Command, context: CommandContext): void {
  bundle
    .command('envelope')
    .description('copy a bundle without its layers, for nodes that pull them from their own registries')
    .argument('<bundle>', 'bundle directory, *.stickpin.tar, or the directory with its volumes')
    .requiredOption('--out <dir>', 'the directory to make')
    .option('--json', 'print as JSON')
    .action(async (path: string, { out, json }: BundleEnvelopeOptions) => {
      const reader = await openNamedBundle(path, context.signal);
      const { bundle, files, sizeBytes } = await takeEnvelope(reader, out, context.signal);
      const { payload, contents, bundleId } = bundle;
      const registries = [
        ...new Set(contents.images.map(({ reference }) => parseReference(reference).repository.split('/')[0] ?? '')),
      ];
      const left = contents.layers.reduce((sum, layer) => sum + layer.sizeBytes, 0);
      context.stdout(
        json
          ? jsonText({ path: out, bundleId, files, sizeBytes, registries })
          : wrapLines(
              `the envelope of ${bundleTitle(payload)} is in ${out}: ${formatCount(files, 'file')} of ${formatBytes(sizeBytes)}, without ${formatCount(contents.layers.length, 'layer')} of ${formatBytes(left)}, which nodes pull from ${registries.join(', ')}\n`,
              context.columns,
              4,
            ),
      );
    });
}
