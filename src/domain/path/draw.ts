import { blocksOn, type PathRelease, type StreamPath } from './stream-path.ts';

const MAX_DRAWN = 30;

export interface GraphNode {
  readonly release: PathRelease;
  /** Versions from which a node may go to it, once they are proven. */
  readonly from: readonly string[];
}

/** The newest 30 releases by their sequence, each with its edges from lower sequences. */
export function graphOf(path: StreamPath): readonly GraphNode[] {
  const drawn = path.releases.slice(-MAX_DRAWN);
  return drawn.map((release, index) => ({
    release,
    from: drawn.slice(0, index).flatMap((before) => (leadsTo(path, before, release) ? [before.version] : [])),
  }));
}

function leadsTo(path: StreamPath, { id, version, sequence }: PathRelease, release: PathRelease): boolean {
  const position = { id, version, sequence, isProven: true, source: 'activated' } as const;
  return version !== release.version && blocksOn({ ...path, position, allowDowngrade: false }, release).length === 0;
}
