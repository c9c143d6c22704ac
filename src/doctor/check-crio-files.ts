import { readFile, readlink, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Finding, findingsOn } from '../domain/model/finding.ts';
import { systemCodeOf } from '../platform/app-error.ts';
import { formatCount } from '../platform/sizes.ts';
import { createCrioFiles } from '../runtime/crio/crio-files.ts';
import type { CrioPaths } from '../runtime/crio/crio-paths.ts';
import type { Check } from './run-checks.ts';

/** What keeps the link to our pins from ever leading nowhere. */
export interface CrioSafeguards {
  readonly paths: CrioPaths;
  /** tmpfiles.d fragment that makes the file and the link at boot; the first that is there counts. */
  readonly tmpfiles: readonly string[];
  /** Drop-in of crio.service that looks at the link before each start. */
  readonly guard: string;
}

const UNREADABLE = "run 'sudo stickpin doctor'; if root can't read it either, look at the file that the message names";
const REINSTALL = "run the archive's install.sh again, with --crio yes";

/**
 * The link, what it leads to, what makes both, and what in the files of others takes the pins away
 * (docs/runtime-facts.md, facts 2, 4, 5).
 */
export function checkCrioFiles({ paths, tmpfiles, guard }: CrioSafeguards): Check[] {
  return [
    { subject: 'crio link', remedy: UNREADABLE, look: async () => [await lookAtLink(paths)] },
    { subject: 'crio boot', remedy: UNREADABLE, look: async () => [await lookAtTmpfiles(tmpfiles, paths)] },
    { subject: 'crio guard', remedy: UNREADABLE, look: async () => [await lookAtGuard(guard, paths)] },
    { subject: 'crio pins', remedy: UNREADABLE, look: async (signal) => [await lookAtPins(paths, signal)] },
    { subject: 'registries.conf.d', remedy: UNREADABLE, look: async () => [await lookAtMirrors(paths)] },
  ];
}

async function lookAtLink({ pinsLink, pinsFile }: CrioPaths): Promise<Finding> {
  const { ok, fault } = findingsOn('crio link');
  const make = 'run systemd-tmpfiles --create stickpin-crio.conf';
  let target: string;
  try {
    target = resolve(dirname(pinsLink), await readlink(pinsLink));
  } catch (error) {
    const isFile = systemCodeOf(error) === 'EINVAL';
    if (isFile)
      return fault(
        `${pinsLink} is a file of its own, so that CRI-O reads no pins of ours`,
        `move it away, then ${make}`,
      );
    return fault(`${pinsLink} is missing, so that CRI-O reads no pins of ours`, make);
  }
  if (target !== pinsFile)
    return fault(`${pinsLink} leads to ${target} and not to ${pinsFile}`, `remove it, then ${make}`);
  const kind = await kindOf(pinsFile);
  if (kind === 'file') return ok(`${pinsLink} leads to ${pinsFile}`);
  return fault(`${pinsLink} leads to ${kind === 'nothing' ? 'nothing' : 'no file'}: CRI-O would not start`, make);
}

async function lookAtTmpfiles(candidates: readonly string[], { pinsLink, pinsFile }: CrioPaths): Promise<Finding> {
  const { ok, fault } = findingsOn('crio boot');
  for (const path of candidates) {
    const text = await textOf(path);
    if (text === undefined) continue;
    const lines = text.split('\n').map((line) => line.trim().split(/\s+/));
    const makes = (type: string, what: string) => lines.some(([kind, name]) => kind === type && name === what);
    if (makes('f', pinsFile) && makes('L', pinsLink)) return ok(`${path} makes the link and its target at boot`);
    return fault(`${path} does not make both ${pinsFile} (f) and ${pinsLink} (L) at boot`, REINSTALL);
  }
  return fault(`${candidates.at(-1)} is missing: nothing makes ${pinsFile} at boot`, REINSTALL);
}

async function lookAtGuard(guard: string, { pinsFile, persistentPinsFile }: CrioPaths): Promise<Finding> {
  const { ok, fault, warning } = findingsOn('crio guard');
  const text = await textOf(guard);
  if (text === undefined) {
    return fault(
      `${guard} is missing: a start of CRI-O without ${pinsFile} fails, and its pins are not brought back`,
      REINSTALL,
    );
  }
  const isWhole = text.includes('ExecStartPre=-') && text.includes(pinsFile) && text.includes(persistentPinsFile);
  if (isWhole) return ok(`${guard} brings the pins back before CRI-O starts`);
  return warning(`${guard} was changed and no longer names ${persistentPinsFile} and ${pinsFile}`, REINSTALL);
}

async function lookAtPins(paths: CrioPaths, signal: AbortSignal): Promise<Finding> {
  const { ok, fault, warning } = findingsOn('crio pins');
  const [kept, read] = [await textOf(paths.persistentPinsFile), await textOf(paths.pinsFile)];
  // Which registry mirrors lead to does not matter for pins.
  const files = createCrioFiles(paths, { authority: '', token: '' });
  const { rendered, fault: trouble } = await files.inspectPins(signal);
  if (trouble !== undefined) return fault(trouble.message, 'change that file; stickpin goes on by itself');
  if ((kept ?? '') !== (read ?? '')) {
    const how = (read ?? '') === '' ? 'does not hold the pins of' : 'differs from';
    return warning(
      `${paths.pinsFile} ${how} ${paths.persistentPinsFile}`,
      'run stickpin rescan; while the daemon runs, both are written again',
    );
  }
  return rendered.length === 0
    ? ok('no image is pinned by stickpin')
    : ok(
        `${formatCount(rendered.length, 'image')} ${rendered.length === 1 ? 'is' : 'are'} pinned, and no file of others takes ${rendered.length === 1 ? 'it' : 'them'} away`,
      );
}

/**
 * Every skopeo and podman of every user reads that folder, and fails on a file that it may not read
 * (docs/runtime-facts.md, fact 12).
 */
async function lookAtMirrors({ mirrorsFile, mirrorsLink }: CrioPaths): Promise<Finding> {
  const { ok, fault } = findingsOn('registries.conf.d');
  const found = await stat(mirrorsLink).catch(() => undefined);
  if (found === undefined || (found.mode & 0o004) !== 0)
    return ok(`${mirrorsLink} keeps no podman or skopeo of others from pulling`);
  return fault(
    `${mirrorsFile} can't be read by everybody, so that podman and skopeo of other users fail`,
    `run chmod 0644 ${mirrorsFile}`,
  );
}

async function kindOf(path: string): Promise<'file' | 'nothing' | 'other'> {
  try {
    return (await stat(path)).isFile() ? 'file' : 'other';
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return 'nothing';
    throw error;
  }
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
