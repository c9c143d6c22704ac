import type { Command } from 'commander';
import { signVolumes } from '../../../bundle/create/payload/sign-envelope.ts';
import { shortKeyId } from '../../../bundle/keys/keys.ts';
import type { SigningKey } from '../../../bundle/keys/signing/signing-key.ts';
import { AppError } from '../../../platform/app-error.ts';
import { volumesOfNamed } from '../../context/bundle-argument.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withPath } from '../../context/read-with-keys.ts';
import { addSigningOptions, readSigningKeys, type SigningOptions } from '../../context/signing-options.ts';
import { jsonText } from '../../output/json.ts';
import { wrapLines } from '../../output/wrap-words.ts';

interface BundleSignOptions extends SigningOptions {
  readonly json?: true;
}

/** Adds `sign` to the command `bundle`. */
export function registerBundleSign(bundle: Command, context: CommandContext): void {
  const command = bundle
    .command('sign')
    .description('add a signature to a bundle')
    .argument('<bundle>', 'bundle directory, directory with its volumes 1, 2 …, or *.stickpin.tar, which is rewritten');
  addSigningOptions(command, 'one')
    .option('--json', 'print as JSON')
    .action(async (path: string, options: BundleSignOptions) => {
      const key = await readOneKey(options, context);
      await volumesOfNamed(path);
      const { paths, envelope } = await signVolumes(path, key, context.signal).catch((error: unknown) => {
        throw withPath(path, error);
      });
      const keyIds = envelope.signatures.map((signature) => signature.keyId);
      const [first, last] = [paths[0] ?? path, paths.at(-1)];
      const signed = last === first ? `${first} is` : `${first} to ${last} are`;
      const has = last === first ? 'it has' : 'they have';
      context.stdout(
        options.json
          ? jsonText({ path, paths, keyId: key.keyId, signatures: keyIds })
          : wrapLines(
              `${signed} signed by key ${shortKeyId(key.keyId)}; ${has} ${keyIds.length} ${keyIds.length === 1 ? 'signature' : 'signatures'} now\n`,
              context.columns,
              4,
            ),
      );
    });
}

/** Each signature is one decision, so one key is used. @throws AppError `bundle/option` */
async function readOneKey(options: BundleSignOptions, context: CommandContext): Promise<SigningKey> {
  const [key, another] = await readSigningKeys(options, context);
  if (key !== undefined && another === undefined) return key;
  const what = key === undefined ? 'no key is given' : 'more than one key is given';
  throw new AppError({
    code: 'bundle/option',
    message: `${what}: give one --key FILE, or one --signer COMMAND with its --signer-key FILE`,
    disposition: 'reject',
  });
}
