import { assertNever } from '../../../platform/app-error.ts';
import type { FilesystemRefusal } from '../../model/medium.ts';

/** Why a medium is not mounted, and what to do: a clause that follows the name of the medium. */
export function filesystemText({ kind, filesystem, allowed }: FilesystemRefusal): string {
  const advice = `copy the bundle to a medium with one of ${allowed.join(', ')}`;
  switch (kind) {
    case 'unknown':
      return `has the filesystem ${filesystem}, which stickpin does not mount: ${advice}`;
    case 'off': {
      const setting = `media.filesystems = [${[...allowed, filesystem].map((name) => `"${name}"`).join(', ')}]`;
      return `has the filesystem ${filesystem}, which is not mounted unless the settings say so: ${advice}, or set ${setting} in /etc/stickpin/stickpin.toml`;
    }
    default:
      return assertNever(kind);
  }
}
