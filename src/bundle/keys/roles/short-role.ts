import type { Role } from '../../../domain/trust/role.ts';
import type { KeyProblem } from '../keys-folder.ts';

/**
 * The problem of a role in force that has fewer keys than its threshold; undefined when it has
 * enough. It stays in force: what it has let in before keeps its trust.
 *
 * @param keys those that count in it now
 */
export function shortRole(
  { name, threshold }: Pick<Role, 'name' | 'threshold'>,
  keys: readonly { readonly name: string }[],
): KeyProblem | undefined {
  if (keys.length >= threshold) return undefined;
  const file = `${name}.toml`;
  const names = keys.map((key) => key.name).join(', ') || 'no key';
  return {
    file,
    message: `role ${name} asks for ${threshold} distinct keys, and has ${names}: nothing can be trusted by it`,
    remedy: `add keys to ${file}, or lower its threshold`,
    hidesRevocations: false,
  };
}
