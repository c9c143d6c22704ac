import * as v from 'valibot';
import { type BundleId, isDigest } from '../../domain/model/digest.ts';
import { HOOK_NAMES, type HookLedger, type HookRecord } from '../../domain/state/hook.ts';
import type { HookStore } from '../../ports/hooks.ts';
import { openSealed } from './sealed-file.ts';

const digest = v.custom<BundleId>((value) => typeof value === 'string' && isDigest(value));
const failure = v.variant('kind', [
  v.object({ kind: v.literal('absent') }),
  v.object({ kind: v.literal('not-loaded'), state: v.string() }),
  v.object({ kind: v.literal('active') }),
  v.object({
    kind: v.literal('ended'),
    job: v.string(),
    result: v.exactOptional(v.string()),
    status: v.exactOptional(v.number()),
  }),
  v.object({ kind: v.literal('unasked'), message: v.string() }),
]);
const schema = v.array(
  v.object({
    hook: v.picklist(HOOK_NAMES),
    unit: v.string(),
    done: v.array(v.tuple([digest, v.number()])),
    failure: v.exactOptional(v.object({ bundleId: digest, why: failure, at: v.number() })),
  }),
);

/** An opened record of hooks. `damage`: why an existing one could not be used. */
export interface OpenedHookLedger {
  readonly store: HookStore;
  readonly damage: string | undefined;
}

/**
 * Opens the record of hooks at `path` (`/var/lib/stickpin/hooks.json`). A damaged one counts as
 * missing: hooks tell of what happens from now on, and `before-activate` runs again for an
 * activation that is not done. It is renamed before a new one is written.
 *
 * @throws AppError `store/read` (`fatal`)
 */
export async function openHookLedger(path: string, now: number): Promise<OpenedHookLedger> {
  const { loaded, damage, save } = await openSealed(path, now, (value) => {
    const parsed = v.safeParse(schema, value);
    return parsed.success ? ledgerOf(parsed.output) : undefined;
  });
  const store: HookStore = {
    load: () => loaded ?? new Map(),
    save: (ledger, signal) => save(documentOf(ledger), signal),
  };
  return { store, damage };
}

function ledgerOf(document: v.InferOutput<typeof schema>): HookLedger {
  return new Map(
    document.map(({ hook, done, ...record }): [typeof hook, HookRecord] => [hook, { ...record, done: new Map(done) }]),
  );
}

function documentOf(ledger: HookLedger): v.InferInput<typeof schema> {
  return [...ledger].map(([hook, { done, ...record }]) => ({ hook, ...record, done: [...done] }));
}
