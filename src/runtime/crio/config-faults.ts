import type { Fault } from '../../domain/model/reason.ts';
import type { ConfigFault } from '../config/config-file.ts';
import { configError } from '../cri/runtime-error.ts';

/** @throws AppError `runtime/config` that names the first broken file, if any */
export function refuseFaults(faults: readonly ConfigFault[], consequence: string): void {
  const message = describeFaults(faults, consequence);
  if (message !== undefined) throw configError(message);
}

/** @throws AppError `runtime/config` that names the later files that do `what`, if any */
export function refuseShadowing(files: readonly string[], what: string): void {
  const message = describeShadowing(files, what);
  if (message !== undefined) throw configError(message);
}

/**
 * The fault in foreign files that disables our pins, now or after CRI-O's next reload. Undefined
 * when there is none.
 */
export function pinFault(
  faults: readonly ConfigFault[],
  shadowing: readonly string[],
  registryFaults: readonly ConfigFault[],
): Fault | undefined {
  const message =
    describeFaults(faults, 'CRI-O can neither reload nor start') ??
    describeShadowing(shadowing, SHADOWED_PINS) ??
    describeFaults(registryFaults, HALF_RELOAD);
  return message === undefined ? undefined : { code: 'runtime/config', message };
}

/** The fault in foreign files that hides our mirrors, now or after CRI-O's next reload. */
export function mirrorFault(faults: readonly ConfigFault[], shadowing: readonly string[]): Fault | undefined {
  const message =
    describeFaults(faults, 'CRI-O can pull no image') ??
    describeShadowing(shadowing, 'configures the same repositories and so takes our mirrors away');
  return message === undefined ? undefined : { code: 'runtime/mirrors-hidden', message };
}

/** The effect of a later file on pins. */
export const SHADOWED_PINS = 'sets pinned_images and so takes the pins of bundles away';
/** The effect of a broken registries configuration on pins (docs/runtime-facts.md, fact 5). */
export const HALF_RELOAD = 'Every reload of CRI-O stops half-way there, so that pins do not hold';

function describeFaults(faults: readonly ConfigFault[], consequence: string): string | undefined {
  const [first] = faults;
  if (first === undefined) return undefined;
  const more = faults.length === 1 ? '' : ` (and ${faults.length - 1} more files)`;
  return `${first.file} is broken: ${first.reason}${more}. ${consequence} until it is mended`;
}

function describeShadowing(files: readonly string[], what: string): string | undefined {
  if (files.length === 0) return undefined;
  return `Behind 99-stickpin.conf comes ${[...new Set(files)].join(', ')}, which ${what}: rename it so that it sorts before`;
}
