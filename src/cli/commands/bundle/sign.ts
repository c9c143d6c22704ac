import type { Command } from 'commander';
import { signVolumes } from '../../../bundle/create/payload/sign-envelope.ts';
import { parsePrivateKey } from '../../../bundle/keys/keys.ts';
import { readKeyFile } from '../../../bundle/keys/trust.ts';
import { volumesOfNamed } from '../../context/bundle-argument.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { withPath } from '../../context/read-with-keys.ts';

/** Adds `sign` to the command `bundle`. */
export function registerBundleSign(bundle: Command, context: CommandContext): void {
  bundle
    .command('sign')
    .description('add a signature to a bundle')
    .argument('<bundle>', 'bundle directory, directory with its volumes 1, 2 …, or *.stickpin.tar, which is rewritten')
    .requiredOption('--key <file>', 'private key (PKCS#8 PEM)')
    .option('--json', 'print as JSON')
    .action(async (path: string, options: { readonly key: string; readonly json?: true }) => {
      const key = parsePrivateKey(await readKeyFile(options.key, context.signal), options.key);
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
          ? `${JSON.stringify({ path, paths, keyId: key.keyId, signatures: keyIds })}\n`
          : `${signed} signed by ${key.keyId}; ${has} ${keyIds.length} ${keyIds.length === 1 ? 'signature' : 'signatures'} now\n`,
      );
    });
}
