import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { FileBundleReader } from '../../bundle/read/bundle-reader.ts';
import { type BundleCandidate, findBundles } from '../../bundle/read/find-bundles.ts';
import { isBundleTar, openBundle } from '../../bundle/read/open-bundle.ts';
import { openVolumes, volumesIn } from '../../bundle/verify/open-volumes.ts';
import type { ShowReport } from '../../domain/report/parts/recorded-report.ts';
import { ambiguousName } from '../../engine/commands/command-context.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { ShownBundle } from '../output/render/render-show.ts';
import { cliError } from './cli-error.ts';

type Shown = Pick<ShowReport, 'bundles' | 'notices' | 'rejected' | 'rejectedNames'>;

interface Candidate {
  readonly shown: ShownBundle;
  /** Its name in `stickpin list`. */
  readonly title: string;
  readonly names: readonly string[];
  /** It is undefined when it is not known. */
  readonly stream: string | undefined;
  readonly bundleId: string | undefined;
}

/** Minimum number of digits to be treated as a digest; fewer are a name. */
const MIN_DIGITS = 6;

/**
 * Finds a bundle by `name@version`, by its digest or the beginning of that, by the path of a
 * rejected one, or by its name alone.
 * @throws AppError `engine/no-bundle`, `engine/ambiguous` when several bundles have the same name
 * and version, `engine/ambiguous-bundle` when a part of a name or digest may mean several
 * (`reject`)
 */
export function findShown(report: Shown, name: string): ShownBundle {
  const candidates = candidatesIn(report);
  const exact = exactly(candidates, name);
  if (exact !== undefined) return exact.shown;
  const digits = /^(?:sha256:)?([0-9a-f]+)…?$/.exec(name)?.[1] ?? '';
  const byDigest =
    digits.length < MIN_DIGITS ? [] : candidates.filter(({ bundleId }) => bundleId?.startsWith(`sha256:${digits}`));
  const found = byDigest.length > 0 ? byDigest : candidates.filter(({ stream }) => stream === name);
  const bundles = new Set(found.map(({ bundleId, title }) => bundleId ?? title));
  const [first] = found;
  if (first === undefined) {
    const message = `no bundle ${name} is known here or plugged in; 'stickpin list' shows those that are`;
    throw cliError('engine/no-bundle', message);
  }
  if (bundles.size === 1) return first.shown;
  const titles = [...new Set(found.map(({ title }) => title))].join(', ');
  const message = `${name} may mean ${titles}; give the whole name and version, or the digest`;
  throw cliError('engine/ambiguous-bundle', message);
}

/**
 * The bundle with this name, path or digest. A current bundle precedes a retired one, and that a
 * rejected one. The last of several retired ones counts, as for commands.
 */
function exactly(candidates: readonly Candidate[], name: string): Candidate | undefined {
  const exact = candidates.filter(({ names }) => names.includes(name));
  const known = exact.filter(({ shown }) => shown.phase !== 'rejected');
  const live = known.filter(({ shown }) => shown.phase !== 'retired');
  const meant = [live, known.slice(-1), exact].find((some) => some.length > 0) ?? [];
  const bundles = new Map(
    meant.flatMap(({ bundleId, shown }) =>
      bundleId === undefined ? [] : [[bundleId, 'sequence' in shown ? shown.sequence : undefined] as const],
    ),
  );
  if (bundles.size > 1) {
    throw ambiguousName(
      [...bundles].map(([bundleId, sequence]) => ({ bundleId, sequence })),
      name,
    );
  }
  return meant.at(-1);
}

function candidatesIn({ bundles, notices, rejected, rejectedNames }: Shown): readonly Candidate[] {
  const adopted = [...bundles, ...notices].map((shown): Candidate => {
    const { bundleId, name, version } = shown;
    const title = name === '' ? bundleId : `${name}@${version}`;
    return { shown, title, names: [title, bundleId], stream: name === '' ? undefined : name, bundleId };
  });
  const refused = rejected.map((one): Candidate => {
    const shown = { ...one, phase: 'rejected' };
    const { path, name, bundleId } = one;
    const title = oneLine(name ?? path);
    const names = [title, path, path.split('/').at(-1) ?? path, ...(bundleId === undefined ? [] : [bundleId])];
    return { shown, title, names, stream: name?.split('@')[0], bundleId };
  });
  const names = rejectedNames.map((one): Candidate => {
    const title = `${one.name}@${one.version}`;
    return { shown: { ...one, phase: 'rejected' }, title, names: [title], stream: undefined, bundleId: undefined };
  });
  // The last one counts: a known bundle before the rejection of its name.
  return [...names, ...adopted, ...refused];
}

/**
 * Opens a directory, a tar file, or a directory with all its volumes (`DIR/1`, `DIR/2` …).
 * @throws AppError `cli/no-bundle` (`reject`) when there is none at `path`; errors of
 * `openVolumes()`
 */
export async function openNamedBundle(path: string, signal: AbortSignal): Promise<FileBundleReader> {
  const [first, ...others] = await volumesOfNamed(path);
  return others.length === 0 ? openBundle(first) : openVolumes(path, [first, ...others], signal);
}

/**
 * The paths of the bundle or of its volumes below `path`. On a stick a missing envelope means a
 * damaged bundle; here it usually means a wrong path.
 *
 * @throws AppError `cli/no-bundle` (`reject`)
 */
export async function volumesOfNamed(path: string): Promise<[string, ...string[]]> {
  const names = await readdir(path).catch((error: unknown) => {
    switch (systemCodeOf(error)) {
      case 'ENOENT':
        throw cliError('cli/no-bundle', `${path} is not there`);
      case 'ENOTDIR':
        if (isBundleTar(path)) return undefined;
        throw cliError(
          'cli/no-bundle',
          `${path} is not a directory; a bundle is a directory, or a file named *.stickpin.tar or *.img`,
        );
      default:
        return undefined; // reading it will give the error
    }
  });
  if (names !== undefined && !names.some((name) => name.toLowerCase() === 'bundle.dsse.json')) {
    const [first, ...others] = await volumesIn(path);
    if (first !== undefined) return [first, ...others];
    throw cliError(
      'cli/no-bundle',
      `${path} holds no bundle.dsse.json; name the directory that does, on a stick stickpin/NAME-VERSION-ARCH`,
    );
  }
  return [path];
}

/**
 * The bundles of a stick, when `path` is the folder that contains its folder `stickpin`; paths are
 * relative to it. Returns undefined for anything else.
 * @throws AppError `cli/no-bundle` (`reject`) for a stick without bundles; `media/read`,
 * `media/gone`
 */
export async function bundlesOfStick(
  path: string,
  signal: AbortSignal,
): Promise<readonly BundleCandidate[] | undefined> {
  const names = (await readdir(path).catch(() => [])).map((name) => name.toLowerCase());
  if (!names.includes('stickpin') || names.includes('bundle.dsse.json')) return undefined;
  const found = await findBundles(resolve(path), 'medium', signal);
  if (found.length === 0)
    throw cliError('cli/no-bundle', `${path} is a stick without bundles: its folder stickpin holds none`);
  return found;
}

/**
 * The path of the only bundle of a stick, when `path` is the folder that contains its folder
 * `stickpin`. Any other path is returned unchanged.
 * @throws AppError `cli/no-bundle` (`reject`) for several bundles, and for one that can't be read
 */
export async function pathOfOne(path: string, signal: AbortSignal): Promise<string> {
  const found = (await bundlesOfStick(path, signal)) ?? [];
  const [first, another] = found;
  if (first === undefined) return path;
  if (another !== undefined) {
    throw cliError('cli/no-bundle', `${path} holds ${found.length} bundles: name one, as ${join(path, first.path)}`);
  }
  if (first.kind === 'unreadable') throw cliError('cli/no-bundle', `${path}: ${first.reason.message}`);
  return join(path, first.path);
}
