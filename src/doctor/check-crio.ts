import { readFile, readlink, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { systemCodeOf } from '../platform/app-error.ts';
import { formatCount } from '../platform/sizes.ts';
import type { Check, ExaminedCrio, ExaminedNode } from './check.ts';

/** Whether CRI-O pulls from us and keeps our pins. A node without CRI-O has no finding. */
export function checkCrio({ crio }: ExaminedNode): readonly Check[] {
  if (crio === undefined) return [];
  return Object.entries(JUDGES).map(([subject, judge]) => ({
    subject,
    remedy: UNREADABLE,
    run: (signal: AbortSignal) => judge(crio, signal),
  }));
}

/** The judges by subject, in the order of the output. */
const JUDGES: Readonly<Record<string, (crio: ExaminedCrio, signal: AbortSignal) => Promise<Finding>>> = {
  'crio link': judgeLink,
  'crio boot': judgeTmpfiles,
  'crio guard': judgeGuard,
  'crio pins': judgePins,
  'registries.conf.d': judgeMirrors,
};

/** Whether systemd-tmpfiles makes the link and its target at boot. */
async function judgeTmpfiles({ tmpfiles: candidates, paths: { pinsLink, pinsFile } }: ExaminedCrio): Promise<Finding> {
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

/** Whether the drop-in of crio.service restores the pins before each start. */
async function judgeGuard({ guard, paths: { pinsFile, persistentPinsFile } }: ExaminedCrio): Promise<Finding> {
  const { ok, fault, warning } = findingsOn('crio guard');
  const text = await textOf(guard);
  if (text === undefined) {
    return fault(
      `${guard} is missing: a start of CRI-O without ${pinsFile} fails, and its pins are not restored`,
      REINSTALL,
    );
  }
  const isWhole = text.includes('ExecStartPre=-') && text.includes(pinsFile) && text.includes(persistentPinsFile);
  if (isWhole) return ok(`${guard} brings the pins back before CRI-O starts`);
  return warning(`${guard} was changed and no longer names ${persistentPinsFile} and ${pinsFile}`, REINSTALL);
}

/**
 * Whether our link in CRI-O's drop-in folder leads to the pins (docs/runtime-facts.md, facts 2 and
 * 4).
 */
async function judgeLink({ paths: { pinsLink, pinsFile } }: ExaminedCrio): Promise<Finding> {
  const { ok, fault } = findingsOn('crio link');
  const make = 'run systemd-tmpfiles --create stickpin-crio.conf';
  let target: string;
  try {
    target = resolve(dirname(pinsLink), await readlink(pinsLink));
  } catch (error) {
    const isFile = systemCodeOf(error) === 'EINVAL';
    const lost = 'so that CRI-O reads no pins of ours';
    if (isFile) return fault(`${pinsLink} is a file of its own, ${lost}`, `move it away, then ${make}`);
    return fault(`${pinsLink} is missing, ${lost}`, make);
  }
  if (target !== pinsFile)
    return fault(
      `${pinsLink} leads to ${target} and not to ${pinsFile}`,
      'remove it: stickpin makes the right link as soon as it has pins',
    );
  const kind = await kindOf(pinsFile);
  if (kind === 'file') return ok(`${pinsLink} leads to ${pinsFile}`);
  return fault(`${pinsLink} leads to ${kind === 'nothing' ? 'nothing' : 'no file'}: CRI-O would not start`, make);
}

async function kindOf(path: string): Promise<'file' | 'nothing' | 'other'> {
  try {
    return (await stat(path)).isFile() ? 'file' : 'other';
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return 'nothing';
    throw error;
  }
}

/**
 * Whether CRI-O reads our mirrors, and other users can still pull: every skopeo and podman of
 * every user reads that folder, and fails on a file that it may not read (docs/runtime-facts.md,
 * fact 12).
 */
async function judgeMirrors(
  { paths, rootsRegistriesFile, hiddenMirrors }: ExaminedCrio,
  signal: AbortSignal,
): Promise<Finding> {
  const { ok, fault } = findingsOn('registries.conf.d');
  const { mirrorsFile, mirrorsLink } = paths;
  if ((await stat(rootsRegistriesFile).catch(() => undefined)) !== undefined)
    return fault(
      `CRI-O reads ${rootsRegistriesFile} and nothing in ${dirname(mirrorsLink)}, so that it uses no mirror of stickpin`,
      `move it to ${dirname(mirrorsLink)}, and run systemctl reload crio`,
    );
  const hidden = await hiddenMirrors(signal);
  if (hidden !== undefined) return fault(hidden.fault.message, 'change that file, and run systemctl reload crio');
  const found = await stat(mirrorsLink).catch(() => undefined);
  if (found === undefined || (found.mode & 0o004) !== 0)
    return ok(`${mirrorsLink} keeps no podman or skopeo of others from pulling`);
  return fault(
    `${mirrorsFile} can't be read by everybody, so that podman and skopeo of other users fail`,
    `run chmod 0644 ${mirrorsFile}`,
  );
}

/**
 * Whether both copies of the pins agree, and no file of others takes pins away
 * (docs/runtime-facts.md, fact 5).
 */
async function judgePins({ paths, inspectPins }: ExaminedCrio, signal: AbortSignal): Promise<Finding> {
  const { ok, fault, warning } = findingsOn('crio pins');
  const [kept, read] = [await textOf(paths.persistentPinsFile), await textOf(paths.pinsFile)];
  const { rendered, fault: trouble } = await inspectPins(signal);
  if (trouble !== undefined) return fault(trouble.message, 'change that file; stickpin continues automatically');
  if ((kept ?? '') !== (read ?? '')) {
    const how = (read ?? '') === '' ? 'does not hold the pins of' : 'differs from';
    return warning(
      `${paths.pinsFile} ${how} ${paths.persistentPinsFile}`,
      'run stickpin rescan; while the daemon runs, both are written again',
    );
  }
  if (rendered.length === 0) return ok('no image is pinned by stickpin');
  const [are, them] = rendered.length === 1 ? ['is', 'it'] : ['are', 'them'];
  return ok(`${formatCount(rendered.length, 'image')} ${are} pinned, and no file of others takes ${them} away`);
}

/** Restores a missing file of the installation. */
const REINSTALL = 'run /usr/lib/stickpin/setup --crio yes';

const UNREADABLE = "run 'sudo stickpin doctor'; if root can't read it either, look at the file that the message names";

/** The text of a file; undefined when it does not exist. @throws system errors as they are */
async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
