import { mkdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { bundleError } from '../../bundle-error.ts';
import { runTool, type Tool } from '../image/run-tool.ts';
import { checkSpace } from '../output/staging.ts';

const xorriso: Tool = { name: 'xorriso', package: 'xorriso' };

/** What was taken out of an ISO image. */
export interface ExtractedIso {
  /** The folder with the files, at the paths that they have in the image. */
  readonly folder: string;
  /** The name of the volume. */
  readonly label: string;
}

/**
 * Takes the container storage (`docker/registry/v2`) and `release.env` out of an ISO9660 image or a
 * drive with one, without mounting it and without root. Device files are not made; links are made
 * as links, so don't follow any.
 *
 * @param to a folder that is made.
 * @throws AppError `bundle/source` (`reject`) when there is no such storage; `bundle/tool`;
 *   `bundle/no-space`
 */
export async function extractIso(path: string, to: string, signal: AbortSignal): Promise<ExtractedIso> {
  await mkdir(to, { recursive: true });
  const { size } = await stat(path);
  await checkSpace(to, size);
  // A drive is only read; -indev would refuse one that is mounted without stdio:.
  const open = ['-report_about', 'WARNING', '-abort_on', 'FAILURE', '-indev', `stdio:${path}`];
  const { stdout: volume } = await runTool(xorriso, { args: [...open, '-pvd_info'] }, signal);
  const find = ['-find', '/', '-wholename', '*/docker/registry/v2', '-type', 'd'];
  const found = pathsIn((await runTool(xorriso, { args: [...open, ...find] }, signal)).stdout);
  if (found.length === 0) {
    throw bundleError(
      'bundle/source',
      `${path} has no folder docker/registry/v2: is it an OpenShift medium with a registry's storage?`,
    );
  }
  const env = pathsIn(
    (await runTool(xorriso, { args: [...open, '-find', '/', '-name', 'release.env'] }, signal)).stdout,
  );
  const wanted = [...found, ...env].flatMap((one) => ['-extract', one, join(to, one)]);
  for (const one of [...found, ...env]) await mkdir(dirname(join(to, one)), { recursive: true });
  await runTool(xorriso, { args: ['-osirrox', 'on', ...open, ...wanted] }, signal);
  return { folder: to, label: /^Volume Id {4}: (.*)$/m.exec(volume)?.[1]?.trim() ?? '' };
}

/** Paths as xorriso prints them, one a line in quotes. Those with a quote inside are left out. */
function pathsIn(text: string): string[] {
  return [...text.matchAll(/^'(\/[^'\n]*)'$/gm)].flatMap(([, path = '']) =>
    path.split('/').includes('..') ? [] : [path],
  );
}
