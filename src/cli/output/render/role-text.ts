import type { TrustReport } from '../../../domain/trust/trust-in-force.ts';
import { formatCount } from '../../../platform/sizes.ts';

/** What the keys of a role may sign: one line, without line end. */
export function roleText({
  name,
  threshold,
  streams,
  repositories,
  mayRotate,
}: NonNullable<TrustReport['roles']>[number]): string {
  const where = repositories.length === 0 ? 'for no image at all' : `for images below ${repositories.join(', ')}`;
  const rotation = mayRotate ? 'may bring and revoke keys of the role' : 'may not change keys';
  return `Role ${name}: ${formatCount(threshold, 'key')} must sign; streams ${streams.join(', ')}, ${where}; ${rotation}`;
}
