import type { Contents, Payload } from '../../domain/model/bundle.ts';
import { bundleError } from '../bundle-error.ts';

type Members = Pick<Payload, 'update' | 'schedule'>;

/** A member of a payload that is about the release itself, and the flag of `bundle create`. */
interface ReleaseMember {
  readonly member: string;
  readonly flag: string;
  readonly isIn: (payload: Members) => boolean;
}

const RELEASE_MEMBERS: readonly ReleaseMember[] = [
  { member: 'schedule', flag: '--manual', isIn: ({ schedule }) => schedule === 'manual' },
  { member: 'update.from', flag: '--from', isIn: ({ update }) => update?.from !== undefined },
  { member: 'update.barrier', flag: '--barrier', isIn: ({ update }) => update?.barrier !== undefined },
  { member: 'update.deadend', flag: '--deadend', isIn: ({ update }) => update?.deadend !== undefined },
  { member: 'update.rollout', flag: '--rollout-start', isIn: ({ update }) => update?.rollout !== undefined },
  { member: 'update.endOfLife', flag: '--end-of-life', isIn: ({ update }) => update?.endOfLife !== undefined },
  { member: 'update.base', flag: '--base', isIn: ({ update }) => update?.base !== undefined },
];

/**
 * What a payload says of its own release: nothing of it has an effect in a bundle without images,
 * since there is nothing to load and nothing to activate.
 */
export function releaseMembers(payload: Members): readonly Omit<ReleaseMember, 'isIn'>[] {
  return RELEASE_MEMBERS.filter(({ isIn }) => isIn(payload));
}

/**
 * Bundle format, `advisories`: a bundle without images says nothing of a release of its own.
 *
 * @throws AppError `bundle/payload` (`reject`) that names the members
 */
export function checkNotice(payload: Payload, { images }: Pick<Contents, 'images'>): void {
  const found = images.length > 0 ? [] : releaseMembers(payload);
  if (found.length === 0) return;
  const names = found.map(({ member }) => member).join(', ');
  throw bundleError(
    'bundle/payload',
    `payload: ${names}: a bundle without images has no release that this would count for; have it made without`,
  );
}
