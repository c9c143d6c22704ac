import type { Command } from 'commander';
import { signBundle } from '../../bundle/create/sign-envelope.ts';
import { parsePrivateKey } from '../../bundle/keys.ts';
import { readKeyFile } from '../../bundle/trust.ts';
import type { CommandContext } from '../command-context.ts';

/** Adds `sign` to the command `bundle`. */
export function registerBundleSign(bundle: Command, context: CommandContext): void {
  bundle
    .command('sign')
    .description('add a signature to a bundle')
    .argument('<bundle>', 'bundle directory, or *.stickpin.tar, which is written anew')
    .requiredOption('--key <file>', 'private key (PKCS#8 PEM)')
    .option('--json', 'print as JSON')
    .action(async (path: string, options: { readonly key: string; readonly json?: true }) => {
      const key = parsePrivateKey(await readKeyFile(options.key, context.signal), options.key);
      const { signatures } = await signBundle(path, key, context.signal);
      const keyIds = signatures.map((signature) => signature.keyId);
      context.stdout(
        options.json
          ? `${JSON.stringify({ path, keyId: key.keyId, signatures: keyIds })}\n`
          : `${path} is signed by ${key.keyId}; it has ${keyIds.length} ${keyIds.length === 1 ? 'signature' : 'signatures'} now\n`,
      );
    });
}
