import { defined } from '../../platform/defined.ts';
import { bundleName, type Payload } from '../model/bundle.ts';
import { type BundleId, hexOf } from '../model/digest.ts';
import type { Policy } from '../settings/settings.ts';
import {
  HOOK_NAMES,
  type HookLedger,
  type HookMemory,
  type HookName,
  type HookRecord,
  type HookRun,
} from '../state/hook.ts';
import type { StoredBundle } from '../state/state.ts';
import { isRetired } from './recorded-phase.ts';

/**
 * The unit's environment file, for `EnvironmentFile=` (systemd.exec(5)). Values are in double
 * quotes, with `"`, `\`, `$` and a backtick escaped. Of two components with the same variable the
 * first one counts.
 *
 * @param attachments an absolute path
 * @returns undefined when a value has control characters, with which systemd would ignore it
 */
export function hookEnvironment(
  hook: HookName,
  { bundleId, payload, contents }: Pick<StoredBundle, 'bundleId' | 'payload' | 'contents'>,
  attachments = '',
): string | undefined {
  const values: Record<string, string> = {
    STICKPIN_HOOK: hook,
    STICKPIN_BUNDLE: bundleName(payload),
    STICKPIN_NAME: payload.name,
    STICKPIN_VERSION: payload.version,
    STICKPIN_DIGEST: bundleId,
    STICKPIN_ATTACHMENTS: attachments,
  };
  for (const { component, reference } of contents.images) {
    if (component !== undefined) values[variableOf(component, 'STICKPIN_IMAGE_')] ??= reference;
  }
  if (Object.values(values).some((value) => /\p{Cc}/u.test(value))) return undefined;
  return Object.entries(values)
    .map(([name, value]) => `${name}="${value.replace(/["\\$`]/g, '\\$&')}"\n`)
    .join('');
}

/** In capitals, with `_` for every character but letters and digits. */
export function variableOf(component: string, prefix = 'STICKPIN_'): string {
  return `${prefix}${component.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;
}

const REPORTING = HOOK_NAMES.filter((name) => name !== 'before-activate');

type Degraded = HookMemory['degraded'];

export function beforeActivate(
  { bundleId, activationRequestedAt = 0 }: Pick<StoredBundle, 'bundleId' | 'activationRequestedAt'>,
  { hooks }: Pick<Policy, 'hooks'>,
): HookRun | undefined {
  const unit = hooks['before-activate'];
  return unit === '' ? undefined : { hook: 'before-activate', unit, bundleId, event: activationRequestedAt };
}

export function hasSucceeded({ hook, unit, bundleId, event }: HookRun, ledger: HookLedger): boolean {
  const record = ledger.get(hook);
  return record?.unit === unit && record.done.get(bundleId) === event;
}

/** Runs for events that were not done yet. None for a hook without a record. */
export function wantedRuns(
  bundles: readonly StoredBundle[],
  { ledger, degraded }: Pick<HookMemory, 'ledger' | 'degraded'>,
  { hooks }: Pick<Policy, 'hooks'>,
): readonly HookRun[] {
  return REPORTING.flatMap((hook) => {
    const unit = hooks[hook];
    if (unit === '' || ledger.get(hook)?.unit !== unit) return [];
    return bundles.flatMap((bundle): HookRun[] => {
      const event = isRetired(bundle) ? undefined : eventOf(hook, bundle, degraded);
      if (event === undefined) return [];
      const run = { hook, unit, bundleId: bundle.bundleId, event };
      return hasSucceeded(run, ledger) ? [] : [run];
    });
  });
}

/**
 * The record of each hook that has a unit. A new unit begins with all past events as done, and
 * without a success of `before-activate`. Releases that are gone and past degradations are removed.
 *
 * @param isStateLost releases may be missing from a lost database: none is removed
 * @returns `ledger` itself where nothing changes
 */
export function ledgerAfter(
  ledger: HookLedger,
  bundles: readonly StoredBundle[],
  degraded: Degraded,
  { hooks }: Pick<Policy, 'hooks'>,
  isStateLost = false,
): HookLedger {
  const isGone = isStateLost ? () => false : isUnknownIn(bundles);
  const next = new Map<HookName, HookRecord>();
  for (const hook of HOOK_NAMES) {
    const unit = hooks[hook];
    const known = ledger.get(hook);
    if (unit === '') continue;
    next.set(hook, known?.unit === unit ? pruned(hook, known, isGone, degraded) : begun(hook, unit, bundles, degraded));
  }
  const isSame = next.size === ledger.size && [...next].every(([hook, record]) => ledger.get(hook) === record);
  return isSame ? ledger : next;
}

export function ledgerWith(
  ledger: HookLedger,
  { hook, unit, bundleId, event }: HookRun,
  failure: HookRecord['failure'],
): HookLedger {
  const known = ledger.get(hook);
  const done = new Map(known?.unit === unit ? known.done : []).set(bundleId, event);
  return new Map(ledger).set(hook, defined({ unit, done, failure }));
}

function begun(hook: HookName, unit: string, bundles: readonly StoredBundle[], degraded: Degraded): HookRecord {
  const happened = bundles.flatMap((bundle): [BundleId, number][] => {
    const event = hook === 'before-activate' ? undefined : eventOf(hook, bundle, degraded);
    return event === undefined ? [] : [[bundle.bundleId, event]];
  });
  return { unit, done: new Map(happened) };
}

function isUnknownIn(bundles: readonly StoredBundle[]): (bundleId: BundleId) => boolean {
  const known = new Set(bundles.map(({ bundleId }) => bundleId));
  return (bundleId) => !known.has(bundleId);
}

function pruned(
  hook: HookName,
  record: HookRecord,
  isGone: (bundleId: BundleId) => boolean,
  degraded: Degraded,
): HookRecord {
  const isOver = (bundleId: BundleId) =>
    isGone(bundleId) || (hook === 'degraded' && degraded.get(bundleId) === 'False');
  const over = [...record.done.keys()].filter(isOver);
  if (over.length === 0) return record;
  return { ...record, done: new Map([...record.done].filter(([bundleId]) => !isOver(bundleId))) };
}

/** Undefined while the event has not happened. */
function eventOf(hook: HookName, bundle: StoredBundle, degraded: Degraded): number | undefined {
  switch (hook) {
    case 'before-activate':
      return undefined;
    case 'ready':
      return bundle.readyAt;
    case 'activated':
      return bundle.activatedAt;
    case 'proven':
      return bundle.provenAt;
    case 'rolled-back':
      return bundle.rolledBackAt;
    case 'degraded':
      return degraded.get(bundle.bundleId) === 'True' ? 1 : undefined;
  }
}

type Bundle = Pick<StoredBundle, 'bundleId' | 'payload'>;

/** `<name>/<version>`. The payload check excludes slashes, `@` and a dot at the begin. */
export function releaseFolderOf({ name, version }: Pick<Payload, 'name' | 'version'>): string {
  return `${name}/${version}`;
}

const DIGITS = 16;

/** `<name>/<version>@<first 16 digits of the digest>`. */
export function ownFolderOf({ bundleId, payload }: Bundle): string {
  return `${releaseFolderOf(payload)}@${hexOf(bundleId).slice(0, DIGITS)}`;
}

export function hasFiles({ payload }: Pick<StoredBundle, 'payload'>): boolean {
  return (payload.attachments ?? []).length > 0;
}

/** A release's own folder, else that of its name and version. */
export function filesFolderOf(bundle: Bundle, installed: ReadonlyMap<string, BundleId>): string | undefined {
  return [ownFolderOf(bundle), releaseFolderOf(bundle.payload)].find(
    (folder) => installed.get(folder) === bundle.bundleId,
  );
}

export function areFilesInstalled(bundle: Bundle, installed: ReadonlyMap<string, BundleId>): boolean {
  return !hasFiles(bundle) || filesFolderOf(bundle, installed) !== undefined;
}
