import type { Check, ExaminedCrio, ExaminedNode, ExaminedRuntime } from '../../src/doctor/check.ts';
import { runChecks } from '../../src/doctor/checks.ts';
import type { Finding } from '../../src/domain/model/reason.ts';
import { defaultSettings, type Settings } from '../../src/domain/settings/settings.ts';
import type { CrioPaths } from '../../src/runtime/crio/crio-config.ts';
import { createCrioFiles } from '../../src/runtime/crio/crio-files.ts';

/** Parts of a node that a check examines; it has no others. Settings are the defaults. */
interface Parts extends Partial<Omit<ExaminedNode, 'settings'>> {
  readonly settings?: { readonly [Name in keyof Settings]?: Partial<Settings[Name]> };
}

type CheckOf = (node: ExaminedNode) => readonly Check[];

export function findingsOf(check: CheckOf, { settings, ...parts }: Parts): Promise<readonly Finding[]> {
  const sections = Object.entries(defaultSettings).map(([name, section]) => [
    name,
    { ...section, ...settings?.[name as keyof Settings] },
  ]);
  const node = {
    ownUid: process.getuid?.() ?? 0,
    facts: { hasKubelet: true },
    ...parts,
    settings: Object.fromEntries(sections),
  };
  return runChecks(check(node as ExaminedNode), AbortSignal.timeout(20_000));
}

/** `fault: stickpin.service is failed`. */
export async function linesOf(check: CheckOf, parts: Parts): Promise<string[]> {
  return (await findingsOf(check, parts)).map(({ verdict, message }) => `${verdict}: ${message}`);
}

/** CRI-O's files at these paths, over the real adapter. */
export function crioOn(
  paths: CrioPaths,
  files: { readonly tmpfiles: readonly string[]; readonly guard: string; readonly rootsRegistriesFile?: string },
): ExaminedCrio {
  const { inspectPins, hiddenMirrors } = createCrioFiles(paths, { authority: '', token: '' });
  return { paths, rootsRegistriesFile: `${files.guard}.none`, ...files, inspectPins, hiddenMirrors };
}

/** A runtime that answers and has room. */
export function examinedRuntime(over: Partial<ExaminedRuntime> = {}): ExaminedRuntime {
  return {
    title: 'containerd',
    socketPath: '/run/containerd/containerd.sock',
    losesPins: false,
    status: async () => undefined,
    version: async () => 'containerd v2.2.1',
    mirrors: async () => ({ kind: 'read' }),
    imageFilesystem: async () => ({ path: '/var/lib/containerd', freeBytes: 90, totalBytes: 100 }),
    close: () => undefined,
    ...over,
  };
}
