import { type Command, Option } from 'commander';
import { bundleError } from '../../../bundle/bundle-error.ts';
import { type SignatureAlgorithm, shortKeyId } from '../../../bundle/keys/keys.ts';
import { artifactLayers, bundleTitle } from '../../../domain/model/bundle.ts';
import { parseReference } from '../../../domain/model/reference.ts';
import type { SigningKey } from '../../../factory/payload/sign-envelope.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { openNamedBundle, volumesOfNamed } from '../../context/find-shown.ts';
import { withPath } from '../../context/read-with-keys.ts';
import { addSigningOptions, readSigningKeys, type SigningOptions } from '../../context/signing-options.ts';
import { type JsonFlag, jsonText, printResult } from '../../output/text.ts';
import type { FactoryDocument } from '../../schema/factory-documents.ts';

export function registerBundleSign(bundle: Command, context: CommandContext): void {
  const command = bundle
    .command('sign')
    .description('add a signature to a bundle')
    .argument('<bundle>', 'bundle directory, directory with its volumes 1, 2 …, or *.stickpin.tar, which is rewritten');
  addSigningOptions(command, 'one')
    .option('--json', 'print as JSON')
    .action(async (path: string, options: SigningOptions & JsonFlag) => {
      const { signVolumes } = await import('../../../factory/payload/sign-envelope.ts');
      const key = await readOneKey(options, context);
      await volumesOfNamed(path);
      const { paths, envelope } = await withPath(path, signVolumes(path, key, context.signal));
      const signatures = envelope.signatures.map(({ keyId }) => keyId);
      const [first, last] = [paths[0] ?? path, paths.at(-1)];
      const [signed, has] = last === first ? [`${first} is`, 'it has'] : [`${first} to ${last} are`, 'they have'];
      const text = `${signed} signed by key ${shortKeyId(key.keyId)}; ${has} ${formatCount(signatures.length, 'signature')} now`;
      const document = { path, paths, keyId: key.keyId, signatures } satisfies FactoryDocument<'bundle-sign'>;
      printResult(document, text, options, context);
    });
}

/** Each signature is one decision, so one key is used. @throws AppError `bundle/option` */
async function readOneKey(options: SigningOptions & JsonFlag, context: CommandContext): Promise<SigningKey> {
  const [key, another] = await readSigningKeys(options, context);
  if (key !== undefined && another === undefined) return key;
  const what = key === undefined ? 'no key is given' : 'more than one key is given';
  const next = 'give one --key FILE, or one --signer COMMAND with its --signer-key FILE';
  throw bundleError('bundle/option', `${what}: ${next}`);
}

export function registerKeygen(program: Command, context: CommandContext): void {
  program
    .command('keygen')
    .description('make a key pair to sign bundles with')
    .requiredOption(
      '--out <prefix>',
      'write PREFIX.key (private, keep it safe) and PREFIX.pub (goes to /etc/stickpin/keys.d)',
    )
    .addOption(
      new Option('--algorithm <name>', 'signature algorithm').choices(['ed25519', 'ecdsa-p256']).default('ed25519'),
    )
    .option('--json', 'print as JSON')
    .action(async (options: JsonFlag & { readonly out: string; readonly algorithm: SignatureAlgorithm }) => {
      const { generateKey } = await import('../../../factory/payload/sign-envelope.ts');
      const made = await generateKey(options.out, options.algorithm);
      const text = `private key ${made.privatePath}\npublic key  ${made.publicPath}\nkey id      ${made.keyId}\n`;
      context.stdout(options.json ? jsonText(made satisfies FactoryDocument<'keygen'>) : text);
    });
}

export function registerBundleEnvelope(bundle: Command, context: CommandContext): void {
  bundle
    .command('envelope')
    .description('copy a bundle without its layers, for nodes that pull them from their own registries')
    .argument('<bundle>', 'bundle directory, *.stickpin.tar, or the directory with its volumes')
    .requiredOption('--out <dir>', 'the directory to make')
    .option('--json', 'print as JSON')
    .action(async (path: string, options: JsonFlag & { readonly out: string }) => {
      const { out } = options;
      const { takeEnvelope } = await import('../../../factory/payload/take-envelope.ts');
      const reader = await openNamedBundle(path, context.signal);
      const { bundle, files, sizeBytes } = await takeEnvelope(reader, out, context.signal);
      const { payload, contents, bundleId } = bundle;
      const registries = [
        ...new Set(contents.images.map(({ reference }) => parseReference(reference).repository.split('/')[0] ?? '')),
      ];
      const taken = new Set(artifactLayers(contents));
      const layers = contents.layers.filter((layer) => !taken.has(layer));
      const layerBytes = layers.reduce((sum, layer) => sum + layer.sizeBytes, 0);
      const text = `the envelope of ${bundleTitle(payload)} is in ${out}: ${formatCount(files, 'file')} of ${formatBytes(sizeBytes)}, without ${formatCount(layers.length, 'layer')} of ${formatBytes(layerBytes)}, which nodes pull from ${registries.join(', ')}`;
      const document = {
        path: out,
        bundleId,
        files,
        sizeBytes,
        registries,
      } satisfies FactoryDocument<'bundle-envelope'>;
      printResult(document, text, options, context);
    });
}
