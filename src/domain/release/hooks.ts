import { defined } from '../../platform/defined.ts';
import { bundleName, type Payload } from '../model/bundle.ts';
import { type BundleId, hexOf } from '../model/digest.ts';
import { type HookName, NODE_HOOKS, RELEASE_HOOKS, type ReleaseHook, SHIPPED_UNITS } from '../settings/hook-units.ts';
import type { Policy } from '../settings/settings.ts';
import {
  type HookLedger,
  type HookMemory,
  type HookRecord,
  type HookRun,
  keyOf,
  type NodeEvent,
  type NodeEvents,
  type NodeRun,
  type ReleaseRun,
} from '../state/hook.ts';
import type { StoredBundle } from '../state/state.ts';
import type { Revocations } from '../trust/approval.ts';
import { isRetired } from './recorded-phase.ts';

/**
 * Returns the environment file of a unit (see {@link fileOf}). The first of two components with the
 * same variable counts.
 *
 * @param attachments an absolute path
 */
export function hookEnvironment(
  hook: ReleaseHook,
  { bundleId, payload, contents }: Pick<StoredBundle, 'bundleId' | 'payload' | 'contents'>,
  attachments = '',
): string | undefined {
  const { name, version } = payload;
  const values = variablesOf({ hook, attachments, release: { bundleId, name, version } });
  for (const { component, reference } of contents.images) {
    if (component !== undefined) values[variableOf(component, 'STICKPIN_IMAGE_')] ??= reference;
  }
  return fileOf(values);
}

export function nodeEnvironment(event: NodeEvent): string | undefined {
  return fileOf(variablesOf(event));
}

/** Sets each variable, so that no unit has one of an earlier run. */
function variablesOf({
  hook,
  release,
  medium = '',
  code = '',
  attachments = '',
}: Omit<NodeEvent, 'hook' | 'key'> & { readonly hook: HookName; readonly attachments?: string }): Record<
  string,
  string
> {
  // The name of a bundle that waits for approval may not be trustworthy.
  const isNamed = release !== undefined && release.name !== '';
  return {
    STICKPIN_HOOK: hook,
    STICKPIN_BUNDLE: isNamed ? bundleName(release) : '',
    STICKPIN_NAME: release?.name ?? '',
    STICKPIN_VERSION: release?.version ?? '',
    STICKPIN_DIGEST: release?.bundleId ?? '',
    STICKPIN_ATTACHMENTS: attachments,
    STICKPIN_MEDIUM: medium,
    STICKPIN_CODE: code,
  };
}

/**
 * Formats `EnvironmentFile=` (systemd.exec(5)): values are in double quotes, with `"`, `\`, `$` and
 * a backtick escaped.
 *
 * @returns undefined when a value has control characters, since systemd would ignore it
 */
function fileOf(values: Readonly<Record<string, string>>): string | undefined {
  if (Object.values(values).some((value) => /\p{Cc}/u.test(value))) return undefined;
  return Object.entries(values)
    .map(([name, value]) => `${name}="${value.replace(/["\\$`]/g, '\\$&')}"\n`)
    .join('');
}

/** Writes capitals, with `_` for every character but letters and digits. */
export function variableOf(component: string, prefix = 'STICKPIN_'): string {
  return `${prefix}${component.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;
}

/**
 * Says whether a hook may start a unit for a release. `other-stream`: the settings name the unit
 * for other streams only. `not-signed`: no key signed the release that they name for the unit, or
 * that key is revoked, also in a role alone.
 */
export function unitRight(
  unit: string,
  bundle: Pick<StoredBundle, 'payload' | 'signerKeyIds'> | undefined,
  { streams }: Pick<Policy, 'streams'>,
  { keyIds, inRoles, revocationsUnreadable }: Revocations,
): 'yes' | 'other-stream' | 'not-signed' {
  const isNamed = Object.values(streams).some((stream) => stream?.units?.includes(unit));
  if (!isNamed && !SHIPPED_UNITS.some((one) => one === unit)) return 'yes';
  const { units = [], unit_keys: keys = [] } = streams[bundle?.payload.name ?? ''] ?? {};
  if (!units.includes(unit)) return 'other-stream';
  const revoked = new Set([...keyIds, ...[...(inRoles?.values() ?? [])].flat()]);
  const isSigned = bundle?.signerKeyIds.some((keyId) => keys.includes(keyId) && !revoked.has(keyId)) ?? false;
  return isSigned && !revocationsUnreadable ? 'yes' : 'not-signed';
}

const REPORTING = RELEASE_HOOKS.filter((name) => name !== 'before-activate');

type Degraded = HookMemory['degraded'];

export function beforeActivate(
  { bundleId, activationRequestedAt = 0 }: StoredBundle,
  { hooks }: Policy,
): ReleaseRun | undefined {
  const unit = hooks['before-activate'];
  return unit === '' ? undefined : { hook: 'before-activate', unit, bundleId, event: activationRequestedAt };
}

export function hasSucceeded(run: HookRun, ledger: HookLedger): boolean {
  const record = ledger.get(run.hook);
  return record?.unit === run.unit && record.done.get(keyOf(run)) === run.event;
}

/** Returns runs for events that were not done yet. A hook without a record has none. */
export function wantedRuns(
  bundles: readonly StoredBundle[],
  { ledger, degraded }: Pick<HookMemory, 'ledger' | 'degraded'>,
  { hooks }: Pick<Policy, 'hooks'>,
): readonly ReleaseRun[] {
  return REPORTING.flatMap((hook) => {
    const unit = hooks[hook];
    if (unit === '' || ledger.get(hook)?.unit !== unit) return [];
    return bundles.flatMap((bundle): ReleaseRun[] => {
      const event = isRetired(bundle) ? undefined : eventOf(hook, bundle, degraded);
      if (event === undefined) return [];
      const run = { hook, unit, bundleId: bundle.bundleId, event };
      return hasSucceeded(run, ledger) ? [] : [run];
    });
  });
}

/** See {@link wantedRuns}. */
export function wantedNodeRuns(events: NodeEvents, ledger: HookLedger, { hooks }: Policy): readonly NodeRun[] {
  return NODE_HOOKS.flatMap((hook) => {
    const unit = hooks[hook];
    if (unit === '' || ledger.get(hook)?.unit !== unit) return [];
    const runs = (events.get(hook) ?? []).map((event): NodeRun => ({ ...event, unit, event: 1 }));
    return runs.filter((run) => !hasSucceeded(run, ledger));
  });
}

/** Like {@link ledgerAfter}, for the node: an event that has ended may happen again. */
export function nodeLedgerAfter(ledger: HookLedger, events: NodeEvents, { hooks }: Policy): HookLedger {
  const next = new Map(ledger);
  for (const [hook, lasting] of events) {
    const unit = hooks[hook];
    const known = ledger.get(hook);
    if (unit === '') continue;
    const keys = new Set(lasting.map(({ key }) => key));
    if (known?.unit !== unit) next.set(hook, { unit, done: new Map([...keys].map((key) => [key, 1])) });
    else if ([...known.done.keys()].some((key) => !keys.has(key)))
      next.set(hook, { ...known, done: new Map([...known.done].filter(([key]) => keys.has(key))) });
  }
  return isSame(next, ledger) ? ledger : next;
}

/**
 * Returns the record of each hook that has a unit. A new unit begins with all past events as done,
 * and without a success of `before-activate`. Removed releases and past degradations are dropped.
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
  for (const hook of NODE_HOOKS) {
    const known = ledger.get(hook);
    if (known !== undefined && known.unit === hooks[hook]) next.set(hook, known);
  }
  for (const hook of RELEASE_HOOKS) {
    const unit = hooks[hook];
    const known = ledger.get(hook);
    if (unit === '') continue;
    next.set(hook, known?.unit === unit ? pruned(hook, known, isGone, degraded) : begun(hook, unit, bundles, degraded));
  }
  return isSame(next, ledger) ? ledger : next;
}

function isSame(next: HookLedger, ledger: HookLedger): boolean {
  return next.size === ledger.size && [...next].every(([hook, record]) => ledger.get(hook) === record);
}

export function ledgerWith(ledger: HookLedger, run: HookRun, failure: HookRecord['failure']): HookLedger {
  const { hook, unit, event } = run;
  const known = ledger.get(hook);
  const done = new Map(known?.unit === unit ? known.done : []).set(keyOf(run), event);
  return new Map(ledger).set(hook, defined({ unit, done, failure }));
}

/** Forgets failures: their hooks run again for the events that still stand. */
export function ledgerToRetry(ledger: HookLedger): HookLedger {
  const next = new Map(ledger);
  for (const [hook, { unit, done, failure }] of ledger) {
    if (failure === undefined) continue;
    const { bundleId = '' } = failure;
    next.set(hook, { unit, done: new Map([...done].filter(([key]) => !key.startsWith(bundleId))) });
  }
  return isSame(next, ledger) ? ledger : next;
}

function begun(hook: ReleaseHook, unit: string, bundles: readonly StoredBundle[], degraded: Degraded): HookRecord {
  const happened = bundles.flatMap((bundle): [BundleId, number][] => {
    const event = hook === 'before-activate' ? undefined : eventOf(hook, bundle, degraded);
    return event === undefined ? [] : [[bundle.bundleId, event]];
  });
  return { unit, done: new Map(happened) };
}

function isUnknownIn(bundles: readonly StoredBundle[]): (bundleId: string) => boolean {
  const known = new Set<string>(bundles.map(({ bundleId }) => bundleId));
  return (bundleId) => !known.has(bundleId);
}

function pruned(
  hook: ReleaseHook,
  record: HookRecord,
  isGone: (bundleId: string) => boolean,
  degraded: Degraded,
): HookRecord {
  const isOver = (bundleId: string) =>
    isGone(bundleId) || (hook === 'degraded' && new Map<string, string>(degraded).get(bundleId) === 'False');
  const over = [...record.done.keys()].filter(isOver);
  if (over.length === 0) return record;
  return { ...record, done: new Map([...record.done].filter(([bundleId]) => !isOver(bundleId))) };
}

/** @returns undefined while the event has not happened */
function eventOf(hook: ReleaseHook, bundle: StoredBundle, degraded: Degraded): number | undefined {
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

/** Returns `<name>/<version>`. The payload check excludes slashes, `@` and a leading dot. */
export function releaseFolderOf({ name, version }: Payload): string {
  return `${name}/${version}`;
}

const DIGITS = 16;

/** Returns `<name>/<version>@<first 16 digits of the digest>`. */
export function ownFolderOf({ bundleId, payload }: Bundle): string {
  return `${releaseFolderOf(payload)}@${hexOf(bundleId).slice(0, DIGITS)}`;
}

export function hasFiles({ payload }: Pick<StoredBundle, 'payload'>): boolean {
  return (payload.attachments ?? []).length > 0;
}

/** Returns the release's own folder, else that of its name and version. */
export function filesFolderOf(bundle: Bundle, installed: ReadonlyMap<string, BundleId>): string | undefined {
  return [ownFolderOf(bundle), releaseFolderOf(bundle.payload)].find(
    (folder) => installed.get(folder) === bundle.bundleId,
  );
}

export function areFilesInstalled(bundle: Bundle, installed: ReadonlyMap<string, BundleId>): boolean {
  return !hasFiles(bundle) || filesFolderOf(bundle, installed) !== undefined;
}
