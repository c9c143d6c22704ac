import { type Command, Option } from 'commander';
import { generateKey } from '../../../bundle/create/payload/generate-key.ts';
import type { SignatureAlgorithm } from '../../../bundle/keys/keys.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { jsonText } from '../../output/json.ts';

interface KeygenOptions {
  readonly out: string;
  readonly algorithm: SignatureAlgorithm;
  readonly json?: true;
}

/** Adds `keygen` to the program. */
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
    .action(async (options: KeygenOptions) => {
      const made = await generateKey(options.out, options.algorithm);
      context.stdout(
        options.json
          ? jsonText(made)
          : `private key ${made.privatePath}\npublic key  ${made.publicPath}\nkey id      ${made.keyId}\n`,
      );
    });
}
