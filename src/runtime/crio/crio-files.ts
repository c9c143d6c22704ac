import { dirname } from 'node:path';
import { hexOf } from '../../domain/model/digest.ts';
import type { HiddenMirrors } from '../../domain/model/image.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { rememberLast } from '../../platform/async/concurrency.ts';
import { digestOf } from '../../platform/digest.ts';
import { type DurableFile, readIfPresent } from '../../platform/files/durable-file.ts';
import { writeDurably } from '../config/config-file.ts';
import type { MirrorAddress } from '../config/toml-text.ts';
import {
  type CrioPaths,
  effectivePins,
  HALF_RELOAD,
  mirrorFault,
  pinFault,
  readCrioConfig,
  refuseFaults,
} from './crio-config.ts';
import { type CrioLinks, createCrioLinks, isLinked } from './crio-links.ts';
import { parsePinsDropIn, recoverPins, renderPinsDropIn } from './pins-drop-in.ts';
import {
  mergeRegistries,
  mirroredRepositories,
  parseRegistriesDropIn,
  readRegistriesConfig,
  renderRegistriesDropIn,
} from './registries.ts';
import type { Reload } from './reload.ts';
import { createSignatureLookup, type SignatureLookup } from './signature-lookup.ts';

/** The result of {@link CrioFiles.inspectPins}. */
interface InspectedPins {
  readonly rendered: string[];
  readonly fault: Fault | undefined;
}

/** The drop-ins on disk. Writes are idempotent. Nothing here calls CRI-O. */
export interface CrioFiles {
  /**
   * Writes our pins together with foreign pins, to the persistent copy first. With a broken
   * registries configuration the pins are written too, but take effect only with the next start of
   * CRI-O; see {@link CrioFiles.refuseHalfReload}.
   *
   * @returns foreign files that override our pins
   * @throws AppError `runtime/config` when a foreign file is broken: ours is not written, since any
   *   reload would fail
   */
  writePins(references: readonly string[], signal: AbortSignal): Promise<readonly string[]>;
  /**
   * Throws when a reload stops half-way, so that pins are not in effect (docs/runtime-facts.md,
   * fact 5).
   *
   * @throws AppError `runtime/config` that names the broken file of the registries configuration
   */
  refuseHalfReload(signal: AbortSignal): Promise<void>;
  /**
   * Whether CRI-O takes all files at a reload: no foreign one is known to be broken, and each can
   * be read. Throws only on abort.
   */
  isReloadWhole(signal: AbortSignal): Promise<boolean>;
  /**
   * {@link CrioFiles.writePins} for mirrors. An empty list is written even if foreign files are
   * broken.
   */
  writeMirrors(repositories: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * `rendered`: the references of ours that both copies hold; none when a copy isn't what would be
   * rendered now (lost, changed, not linked, or others changed their pins), so that it is rendered
   * again. `fault`: what in the files of others takes pins of ours away, whether CRI-O has read it
   * already or only will, with the file's name; undefined also when nothing of ours is rendered.
   */
  inspectPins(signal: AbortSignal): Promise<InspectedPins>;
  /**
   * Every reference of ours in either copy, sorted, also in a damaged one. @throws system errors as
   * they are
   */
  foundPins(signal: AbortSignal): Promise<readonly string[]>;
  /**
   * The mirrors that are written and that foreign files hide, whether CRI-O has read these already
   * or only will. Returns undefined when none is hidden.
   */
  hiddenMirrors(signal: AbortSignal): Promise<HiddenMirrors | undefined>;
  /** Repositories that the drop-in now mirrors to our registry. */
  renderedMirrors(signal: AbortSignal): Promise<string[]>;
}

/** The state that the functions below share. Each reader caches the result of its last text. */
interface DropIns {
  readonly paths: CrioPaths;
  readonly address: MirrorAddress;
  readonly signatures: SignatureLookup;
  readonly links: CrioLinks;
  readonly change: Reload['change'];
  /** Returns undefined for text that stickpin does not write. */
  readonly mirrorsIn: (text: string) => readonly string[] | undefined;
  readonly pinsIn: typeof parsePinsDropIn;
  readonly pinsFoundIn: typeof recoverPins;
}

/**
 * {@link CrioFiles} below the given paths.
 *
 * @param change makes each change of what CRI-O reads. Default: no reload follows
 */
export function createCrioFiles(
  paths: CrioPaths,
  address: MirrorAddress,
  change: Reload['change'] = async (_state, make) => void (await make()),
): CrioFiles {
  const dropIns: DropIns = {
    paths,
    address,
    signatures: createSignatureLookup(paths, address),
    links: createCrioLinks(paths, change),
    change,
    mirrorsIn: rememberLast((text): readonly string[] | undefined => parseRegistriesDropIn(text, address)),
    pinsIn: rememberLast(parsePinsDropIn),
    pinsFoundIn: rememberLast(recoverPins),
  };
  return {
    writePins: (ours, signal) => writePins(dropIns, ours, signal),
    refuseHalfReload: async (signal) => {
      const { faults } = await foreignRegistries(paths, signal);
      refuseFaults(faults, HALF_RELOAD);
    },
    isReloadWhole: (signal) => isReloadWhole(paths, signal),
    writeMirrors: (repositories, signal) => writeMirrors(dropIns, repositories, signal),
    inspectPins: (signal) => inspectPins(dropIns, signal),
    hiddenMirrors: (signal) => hiddenMirrors(paths, signal),
    foundPins: async (signal) => {
      const texts = await untilAborted(readBothPins(paths), signal);
      return [...new Set(texts.flatMap((text) => dropIns.pinsFoundIn(text ?? '')))].sort();
    },
    renderedMirrors: (signal) => untilAborted(renderedMirrors(dropIns, signal), signal),
  };
}

/** The foreign pins: those of other configuration files. */
async function foreignPins(paths: CrioPaths, signal: AbortSignal) {
  const pinsPaths = { ...paths, linkPath: paths.pinsLink };
  return effectivePins(await readCrioConfig(pinsPaths, signal), pinsPaths);
}

/** The foreign registries: those of other configuration files. */
async function foreignRegistries(paths: CrioPaths, signal: AbortSignal) {
  const registriesPaths = {
    configPath: paths.registriesPath,
    configDirectory: paths.registriesDirectory,
    linkPath: paths.mirrorsLink,
  };
  return mergeRegistries(await readRegistriesConfig(registriesPaths, signal), registriesPaths);
}

/** The persistent copy and the copy that CRI-O reads; undefined when missing. */
function readBothPins(paths: CrioPaths): Promise<[string | undefined, string | undefined]> {
  return Promise.all([readIfPresent(paths.persistentPinsFile), readIfPresent(paths.pinsFile)]);
}

async function isReloadWhole(paths: CrioPaths, signal: AbortSignal): Promise<boolean> {
  try {
    const read = await Promise.all([foreignPins(paths, signal), foreignRegistries(paths, signal)]);
    return read.every(({ faults }) => faults.length === 0);
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

async function writePins(dropIns: DropIns, ours: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
  const { paths } = dropIns;
  if (ours.length === 0 && (await holdsNoPins(paths))) return [];
  const { pins: foreign, shadowing, faults } = await foreignPins(paths, signal);
  refuseFaults(faults, 'CRI-O would fail to reload, so the pins stay as they are');
  const text = renderPinsDropIn({ ours, foreign });
  await keepUnreadable(paths);
  await writeDurably({ path: paths.persistentPinsFile }, text);
  // New files are staged in the parent of CRI-O's directory, so that no half-written file appears
  // in it.
  const stagingDirectory = dirname(dirname(paths.pinsFile));
  await writeForCrio(dropIns, { path: paths.pinsFile, stagingDirectory }, text);
  await dropIns.links.ensure(paths.pinsLink, paths.pinsFile);
  return ours.length === 0 ? [] : shadowing;
}

async function writeMirrors(dropIns: DropIns, repositories: readonly string[], signal: AbortSignal): Promise<void> {
  const { paths, address, signatures, links } = dropIns;
  if (repositories.length === 0 && (await renderedMirrors(dropIns, signal)).length === 0) return;
  const config = await foreignRegistries(paths, signal);
  if (repositories.length > 0) refuseFaults(config.faults, 'No image could be pulled');
  const text = renderRegistriesDropIn(repositories, address, config.entries);
  if (repositories.length > 0) await signatures.write();
  await writeDurably({ path: paths.persistentMirrorsFile }, text);
  await writeForCrio(dropIns, { path: paths.mirrorsFile }, text);
  if (repositories.length === 0) await signatures.remove();
  if (repositories.length > 0) await links.ensure(paths.mirrorsLink, paths.mirrorsFile);
}

async function inspectPins({ paths, pinsIn }: DropIns, signal: AbortSignal): Promise<InspectedPins> {
  const [persistent, running] = await readBothPins(paths);
  const content = pinsIn(running ?? '');
  if (content === undefined || content.ours.length === 0 || running !== persistent) return NOTHING_RENDERED;
  const { pins: foreign, faults, shadowing } = await foreignPins(paths, signal);
  const isCurrent = faults.length > 0 || renderPinsDropIn({ ours: content.ours, foreign }) === running;
  if (!isCurrent || !(await isLinked(paths.pinsLink, paths.pinsFile))) return NOTHING_RENDERED;
  const fault = pinFault(faults, shadowing, (await foreignRegistries(paths, signal)).faults);
  return { rendered: [...content.ours], fault };
}

async function hiddenMirrors(paths: CrioPaths, signal: AbortSignal): Promise<HiddenMirrors | undefined> {
  const ours = mirroredRepositories((await readIfPresent(paths.mirrorsFile)) ?? '');
  if (ours.length === 0) return undefined;
  const { behindOurs, faults } = await foreignRegistries(paths, signal);
  const behind = behindOurs.filter(({ prefix }) => ours.includes(prefix));
  const fault = mirrorFault(
    faults,
    behind.map(({ file }) => file),
  );
  if (fault === undefined) return undefined;
  return { repositories: faults.length > 0 ? ours : behind.map(({ prefix }) => prefix), fault };
}

async function renderedMirrors(dropIns: DropIns, signal: AbortSignal): Promise<string[]> {
  const { paths, signatures, mirrorsIn } = dropIns;
  const text = await readIfPresent(paths.mirrorsFile);
  const rendered = text === undefined ? [] : (mirrorsIn(text) ?? [`unreadable ${paths.mirrorsFile}`]);
  // Mirrors that are not what would be written now count as not current, so that they are written
  // again: mirrors stay for long, and what others configure stands behind them.
  if (rendered.length === 0) {
    const kept = await readIfPresent(paths.persistentMirrorsFile);
    return kept === undefined || mirrorsIn(kept)?.length === 0 ? [] : [`outdated ${paths.persistentMirrorsFile}`];
  }
  const outdated = [
    ...((await signatures.isCurrent()) ? [] : [paths.signatureLookupFile]),
    ...((await isLinked(paths.mirrorsLink, paths.mirrorsFile)) ? [] : [paths.mirrorsLink]),
    ...((await readIfPresent(paths.persistentMirrorsFile)) === text ? [] : [paths.persistentMirrorsFile]),
    ...((await isAsConfigured(rendered, text ?? '', dropIns, signal)) ? [] : [paths.mirrorsFile]),
  ];
  return [...rendered, ...outdated.map((path) => `outdated ${path}`)];
}

/**
 * Whether the text has behind our mirrors what others configure now. Broken files count as
 * unchanged, since nothing can be written before they are mended.
 */
async function isAsConfigured(
  rendered: readonly string[],
  text: string,
  { paths, address }: DropIns,
  signal: AbortSignal,
): Promise<boolean> {
  const { entries, faults } = await foreignRegistries(paths, signal);
  return faults.length > 0 || renderRegistriesDropIn(rendered, address, entries) === text;
}

/**
 * Keeps a copy of pins that can't be parsed before they are overwritten, because a person may
 * understand them. The copy is next to the persistent one, where CRI-O reads nothing. There is at
 * most one copy of each content.
 */
async function keepUnreadable({ persistentPinsFile, pinsFile }: CrioPaths): Promise<void> {
  for (const path of [persistentPinsFile, pinsFile]) {
    const text = await readIfPresent(path).catch(() => undefined); // the write reports what can't be read
    if (text === undefined || parsePinsDropIn(text) !== undefined) continue;
    const name = hexOf(digestOf(text)).slice(0, 12);
    await writeDurably({ path: `${persistentPinsFile}.damaged-${name}` }, text);
  }
}

/** Whether nothing need be written: a node without bundles is left unchanged. */
async function holdsNoPins(paths: CrioPaths): Promise<boolean> {
  const texts = await readBothPins(paths);
  return texts.every((text) => parsePinsDropIn(text ?? '')?.ours.length === 0);
}

const NOTHING_RENDERED = { rendered: [], fault: undefined };

/** Writes a file that CRI-O reads. */
async function writeForCrio({ change }: DropIns, file: DurableFile, text: string): Promise<void> {
  const read = () => readIfPresent(file.path);
  if ((await read().catch(() => undefined)) === text) await writeDurably(file, text);
  else await change(read, () => writeDurably(file, text));
}
