import { type Command, InvalidArgumentError } from 'commander';
import type { RegistryAccess } from '../../distribution/registry-client.ts';
import { defined } from '../../platform/defined.ts';
import { numberOption } from './option-values.ts';

export interface RegistryOptions {
  readonly authfile?: string;
  readonly tlsVerify?: boolean;
  readonly retry?: number;
}

/** @param retries default of `--retry` */
export function addRegistryOptions(command: Command, retries?: number): Command {
  return command
    .option('--authfile <file>', 'credentials for registries, as for skopeo (containers-auth.json)')
    .option('--tls-verify [boolean]', 'false: use registries without a valid certificate too', booleanOf)
    .option('--retry <times>', 'how often a failed request to a registry is tried again', times, retries);
}

export function accessOf({ authfile, tlsVerify, retry }: RegistryOptions): RegistryAccess {
  return defined({ authfile, tlsVerify, retries: retry });
}

const times = numberOption(/^(?:100|[0-9]{1,2})$/, 'It must be a number from 0 to 100.');

/** The flag alone means true, as in skopeo. */
function booleanOf(text: string): boolean {
  if (text !== 'true' && text !== 'false') throw new InvalidArgumentError('It must be true or false.');
  return text === 'true';
}
